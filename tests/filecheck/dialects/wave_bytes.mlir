// RUN: tessera-opt %s | tessera-opt | filecheck %s
// RUN: tessera-opt %s --print-op-generic | tessera-opt | filecheck %s
// RUN: tessera-opt %s -p verify-level{level=kernel} | filecheck %s

// CHECK-LABEL: func.func @masks
// CHECK-NEXT: %0 = "wave.mask_staged"(%s, %i) {axis = "row", whole_chunks, operandSegmentSizes = array<i32: 1, 1, 0>} : (!wave.staged<64x32xi8, rows>, i32) -> !wave.staged<64x32xi8, rows>
// CHECK-NEXT: %1 = "wave.mask_staged"(%0, %i, %i) {axis = "column", operandSegmentSizes = array<i32: 1, 1, 1>} : (!wave.staged<64x32xi8, rows>, i32, i32) -> !wave.staged<64x32xi8, rows>
func.func @masks(%s: !wave.staged<64x32xi8, rows>, %i: i32) {
  %0 = "wave.mask_staged"(%s, %i) {axis = "row", whole_chunks, operandSegmentSizes = array<i32: 1, 1, 0>} : (!wave.staged<64x32xi8, rows>, i32) -> !wave.staged<64x32xi8, rows>
  %1 = "wave.mask_staged"(%0, %i, %i) {axis = "column", operandSegmentSizes = array<i32: 1, 1, 1>} : (!wave.staged<64x32xi8, rows>, i32, i32) -> !wave.staged<64x32xi8, rows>
  func.return
}

// CHECK-LABEL: func.func @statistic
// CHECK-NEXT: %0 = wave.load_global_statistic %p limit %i : !wave.pointer<f32> -> !wave.statistic<16xf32, column>
func.func @statistic(%p: !wave.pointer<f32>, %i: i32) {
  %0 = wave.load_global_statistic %p limit %i : !wave.pointer<f32> -> !wave.statistic<16xf32, column>
  func.return
}
