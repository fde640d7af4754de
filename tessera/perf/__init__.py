"""Operations, shapes and schedules to tables of speed: modelled here, measured where a chip is."""
