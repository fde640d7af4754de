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
