// RUN: tessera-opt %s | tessera-opt | filecheck %s

// What steers a wave: a test that all lanes answer alike, cheap rounding, and a scheduling hint.

// CHECK-LABEL: func.func @steer
// CHECK: %0 = wave.any_greater %largest, %bound : !wave.statistic<16xf32, column>, !wave.statistic<16xf32, column>
// CHECK-NEXT: wave.schedule_barrier
// CHECK-NEXT: %1 = wave.convert %weights {toward_zero} : !wave.fragment<16x16xf32, acc> -> !wave.fragment<16x16xf16, b>
func.func @steer(%largest: !wave.statistic<16xf32, column>, %bound: !wave.statistic<16xf32, column>, %weights: !wave.fragment<16x16xf32, acc>) {
  %0 = wave.any_greater %largest, %bound : !wave.statistic<16xf32, column>, !wave.statistic<16xf32, column>
  wave.schedule_barrier
  %1 = wave.convert %weights {toward_zero} : !wave.fragment<16x16xf32, acc> -> !wave.fragment<16x16xf16, b>
  func.return
}

// Accumulators that travel between waves.

// CHECK-LABEL: func.func @exchange
// CHECK-NEXT: wave.store_accumulator %tile, %lds[%first] : !wave.fragment<16x16xf32, acc>, !wave.lds<1x512xf32, 512>
// CHECK-NEXT: %0 = wave.load_accumulator %lds[%first] : !wave.lds<1x512xf32, 512> -> !wave.fragment<16x16xf32, acc>
func.func @exchange(%tile: !wave.fragment<16x16xf32, acc>, %lds: !wave.lds<1x512xf32, 512>, %first: i32) {
  wave.store_accumulator %tile, %lds[%first] : !wave.fragment<16x16xf32, acc>, !wave.lds<1x512xf32, 512>
  %0 = wave.load_accumulator %lds[%first] : !wave.lds<1x512xf32, 512> -> !wave.fragment<16x16xf32, acc>
  func.return
}
