"""Directives to wave programs: the kernel generators and their schedules."""
