// RUN: tessera-opt %s --split-input-file --verify-diagnostics | filecheck %s

// CHECK: error: {{.*}}fragment role 'c'; supported: a, b, acc
func.func @f(%a: !wave.fragment<16x16xf16, c>) {
  func.return
}

// -----
// CHECK: error: {{.*}}statistic axis 'lane'; supported: row, column
func.func @f(%a: !wave.statistic<16xf32, lane>) {
  func.return
}

// -----
// CHECK: error: {{.*}}LDS pitch 24 is below 32
func.func @f() {
  %0 = wave.alloc_lds : !wave.lds<64x32xf16, 24>
  func.return
}

// -----
// CHECK: error: wave.stage: zero_rows needs a row_limit
func.func @f(%p: !wave.pointer<f16>, %i: i32) {
  %0 = "wave.stage"(%p, %i) {zero_rows, alignment = 16, threads = 128, operandSegmentSizes = array<i32: 1, 1, 0, 0>} : (!wave.pointer<f16>, i32) -> !wave.staged<64x32xf16, rows>
  func.return
}

// -----
// CHECK: error: wave.commit: a (64, 32) tile does not fit (64, 16)
func.func @f(%s: !wave.staged<64x32xf16, rows>) {
  %0 = wave.alloc_lds : !wave.lds<64x16xf16, 24>
  wave.commit %s, %0 {threads = 128} : !wave.staged<64x32xf16, rows>, !wave.lds<64x16xf16, 24>
  func.return
}

// -----
// CHECK: error: wave.mma: operand a is a fragment of role b
func.func @f(%b: !wave.fragment<16x16xf16, b>, %c: !wave.fragment<16x16xf32, acc>) {
  %0 = wave.mma %b, %b, %c : !wave.fragment<16x16xf16, b>, !wave.fragment<16x16xf16, b>, !wave.fragment<16x16xf32, acc> -> !wave.fragment<16x16xf32, acc>
  func.return
}

// -----
// CHECK: error: wave.map: the region's arguments do not match the inputs
func.func @f(%s: !wave.fragment<16x16xf32, acc>) {
  %0 = "wave.map"(%s) ({
  ^bb0(%element: f16):
    wave.yield %element : f16
  }) : (!wave.fragment<16x16xf32, acc>) -> !wave.fragment<16x16xf32, acc>
  func.return
}

// -----
// CHECK: error: wave.reduce kind 'mean'; supported:
func.func @f(%s: !wave.fragment<16x16xf32, acc>) {
  %0 = wave.reduce %s {kind = "mean"} : !wave.fragment<16x16xf32, acc> -> !wave.statistic<16xf32, column>
  func.return
}

// -----
// CHECK: error: wave.mask_staged axis 'lane'; supported: ('row', 'column')
func.func @f(%s: !wave.staged<64x32xi8, rows>, %i: i32) {
  %0 = "wave.mask_staged"(%s, %i) {axis = "lane", operandSegmentSizes = array<i32: 1, 1, 0>} : (!wave.staged<64x32xi8, rows>, i32) -> !wave.staged<64x32xi8, rows>
  func.return
}

// -----
// CHECK: error: wave.load_global_statistic: only per-column statistics
func.func @f(%p: !wave.pointer<f32>, %i: i32) {
  %0 = wave.load_global_statistic %p limit %i : !wave.pointer<f32> -> !wave.statistic<16xf32, row>
  func.return
}

// -----
// CHECK: error: wave.dot: both operands must be b fragments of one type
func.func @f(%a: !wave.fragment<16x16xf16, a>) {
  %0 = wave.dot %a, %a : !wave.fragment<16x16xf16, a>, !wave.fragment<16x16xf16, a> -> !wave.statistic<16xf32, column>
  func.return
}
