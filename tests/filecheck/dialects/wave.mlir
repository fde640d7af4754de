// RUN: tessera-opt %s | tessera-opt | filecheck %s
// RUN: tessera-opt %s --print-op-generic | tessera-opt | filecheck %s
// RUN: tessera-opt %s -p verify-level{level=kernel} | filecheck %s

// CHECK-LABEL: func.func @ids
// CHECK-NEXT: %0 = wave.workgroup_id
// CHECK-NEXT: %1 = wave.wave_id
// CHECK-NEXT: %2 = wave.thread_id
// CHECK-NEXT: %3 = wave.undefined : i32
func.func @ids() {
  %0 = wave.workgroup_id
  %1 = wave.wave_id
  %2 = wave.thread_id
  %3 = wave.undefined : i32
  func.return
}

// CHECK-LABEL: func.func @global
// CHECK-NEXT: %0 = wave.offset %p, %j : !wave.pointer<f16> -> !wave.pointer<f16>
// CHECK-NEXT: %1 = "wave.load_global_fragment"(%0, %i) {alignment = 16 : i64, operandSegmentSizes = array<i32: 1, 1, 0, 0>} : (!wave.pointer<f16>, i32) -> !wave.fragment<16x16xf16, a>
// CHECK-NEXT: %2 = "wave.load_global_fragment"(%0, %i, %i, %i) {alignment = 2 : i64, transposed, operandSegmentSizes = array<i32: 1, 1, 1, 1>} : (!wave.pointer<f16>, i32, i32, i32) -> !wave.fragment<16x16xf16, b>
// CHECK-NEXT: %3 = wave.load_element %p[%j] : !wave.pointer<f16> -> f16
// CHECK-NEXT: wave.store_element %3, %p[%j] : f16, !wave.pointer<f16>
func.func @global(%p: !wave.pointer<f16>, %i: i32, %j: i64) {
  %0 = wave.offset %p, %j : !wave.pointer<f16> -> !wave.pointer<f16>
  %1 = "wave.load_global_fragment"(%0, %i) {alignment = 16, operandSegmentSizes = array<i32: 1, 1, 0, 0>} : (!wave.pointer<f16>, i32) -> !wave.fragment<16x16xf16, a>
  %2 = "wave.load_global_fragment"(%0, %i, %i, %i) {alignment = 2, transposed, operandSegmentSizes = array<i32: 1, 1, 1, 1>} : (!wave.pointer<f16>, i32, i32, i32) -> !wave.fragment<16x16xf16, b>
  %3 = wave.load_element %p[%j] : !wave.pointer<f16> -> f16
  wave.store_element %3, %p[%j] : f16, !wave.pointer<f16>
  func.return
}

// CHECK-LABEL: func.func @local
// CHECK-NEXT: %0 = wave.alloc_lds : !wave.lds<64x32xbf16, 40>
// CHECK-NEXT: %1 = "wave.stage"(%p, %i, %i) {zero_rows, alignment = 16 : i64, threads = 128 : i64, operandSegmentSizes = array<i32: 1, 1, 1, 0>} : (!wave.pointer<bf16>, i32, i32) -> !wave.staged<64x32xbf16, rows>
// CHECK-NEXT: wave.commit %1, %0 {threads = 128 : i64} : !wave.staged<64x32xbf16, rows>, !wave.lds<64x32xbf16, 40>
// CHECK-NEXT: wave.barrier
// CHECK-NEXT: %2 = wave.load_fragment %0[%i, %i] : !wave.lds<64x32xbf16, 40> -> !wave.fragment<16x16xbf16, b>
// CHECK-NEXT: %3 = wave.alloc_lds : !wave.lds<1x64xf32, 64>
// CHECK-NEXT: wave.store_lds_element %x, %3[%i] : f32, !wave.lds<1x64xf32, 64>
// CHECK-NEXT: %4 = wave.load_statistic %3[%i] : !wave.lds<1x64xf32, 64> -> !wave.statistic<16xf32, row>
func.func @local(%p: !wave.pointer<bf16>, %i: i32, %x: f32) {
  %0 = wave.alloc_lds : !wave.lds<64x32xbf16, 40>
  %1 = "wave.stage"(%p, %i, %i) {zero_rows, alignment = 16, threads = 128, operandSegmentSizes = array<i32: 1, 1, 1, 0>} : (!wave.pointer<bf16>, i32, i32) -> !wave.staged<64x32xbf16, rows>
  wave.commit %1, %0 {threads = 128} : !wave.staged<64x32xbf16, rows>, !wave.lds<64x32xbf16, 40>
  wave.barrier
  %2 = wave.load_fragment %0[%i, %i] : !wave.lds<64x32xbf16, 40> -> !wave.fragment<16x16xbf16, b>
  %3 = wave.alloc_lds : !wave.lds<1x64xf32, 64>
  wave.store_lds_element %x, %3[%i] : f32, !wave.lds<1x64xf32, 64>
  %4 = wave.load_statistic %3[%i] : !wave.lds<1x64xf32, 64> -> !wave.statistic<16xf32, row>
  func.return
}

// CHECK-LABEL: func.func @matrices
// CHECK-NEXT: %0 = wave.zero : !wave.fragment<16x16xf32, acc>
// CHECK-NEXT: %1 = wave.mma %a, %b, %0 : !wave.fragment<16x16xf16, a>, !wave.fragment<16x16xf16, b>, !wave.fragment<16x16xf32, acc> -> !wave.fragment<16x16xf32, acc>
// CHECK-NEXT: %2 = wave.convert %1 : !wave.fragment<16x16xf32, acc> -> !wave.fragment<16x16xf16, b>
// CHECK-NEXT: %3 = wave.negate_if %2, %c : !wave.fragment<16x16xf16, b>, i1 -> !wave.fragment<16x16xf16, b>
// CHECK-NEXT: %4 = wave.dot %3, %b : !wave.fragment<16x16xf16, b>, !wave.fragment<16x16xf16, b> -> !wave.statistic<16xf32, column>
// CHECK-NEXT: wave.store %1, %p, %i limit[%i, %i] {alignment = 4 : i64} : !wave.fragment<16x16xf32, acc>, !wave.pointer<f32>
// CHECK-NEXT: wave.store %1, %p, %i limit[%i, %i] {alignment = 16 : i64, transposed} : !wave.fragment<16x16xf32, acc>, !wave.pointer<f32>
func.func @matrices(%a: !wave.fragment<16x16xf16, a>, %b: !wave.fragment<16x16xf16, b>, %c: i1, %p: !wave.pointer<f32>, %i: i32) {
  %0 = wave.zero : !wave.fragment<16x16xf32, acc>
  %1 = wave.mma %a, %b, %0 : !wave.fragment<16x16xf16, a>, !wave.fragment<16x16xf16, b>, !wave.fragment<16x16xf32, acc> -> !wave.fragment<16x16xf32, acc>
  %2 = wave.convert %1 : !wave.fragment<16x16xf32, acc> -> !wave.fragment<16x16xf16, b>
  %3 = wave.negate_if %2, %c : !wave.fragment<16x16xf16, b>, i1 -> !wave.fragment<16x16xf16, b>
  %4 = wave.dot %3, %b : !wave.fragment<16x16xf16, b>, !wave.fragment<16x16xf16, b> -> !wave.statistic<16xf32, column>
  wave.store %1, %p, %i limit[%i, %i] {alignment = 4} : !wave.fragment<16x16xf32, acc>, !wave.pointer<f32>
  wave.store %1, %p, %i limit[%i, %i] {alignment = 16, transposed} : !wave.fragment<16x16xf32, acc>, !wave.pointer<f32>
  func.return
}

// CHECK-LABEL: func.func @statistics
// CHECK-NEXT: %0 = wave.splat %x : !wave.statistic<16xf32, column>
// CHECK-NEXT: %1 = wave.reduce %s {kind = "max"} : !wave.fragment<16x16xf32, acc> -> !wave.statistic<16xf32, column>
// CHECK-NEXT: %2 = wave.combine %1 {kind = "max"} : !wave.statistic<16xf32, column> -> !wave.statistic<16xf32, column>
// CHECK-NEXT: %3 = "wave.map"(%s, %2, %x) ({
// CHECK-NEXT: ^{{.*}}(%row: i32, %column: i32, %element: f32, %largest: f32, %scalar: f32):
// CHECK-NEXT: %d = arith.subf %element, %largest : f32
// CHECK-NEXT: wave.yield %d : f32
// CHECK-NEXT: }) {coordinates} : (!wave.fragment<16x16xf32, acc>, !wave.statistic<16xf32, column>, f32) -> !wave.fragment<16x16xf32, acc>
// CHECK-NEXT: wave.store_statistic %2, %p limit %i : !wave.statistic<16xf32, column>, !wave.pointer<f32>
func.func @statistics(%s: !wave.fragment<16x16xf32, acc>, %x: f32, %p: !wave.pointer<f32>, %i: i32) {
  %0 = wave.splat %x : !wave.statistic<16xf32, column>
  %1 = wave.reduce %s {kind = "max"} : !wave.fragment<16x16xf32, acc> -> !wave.statistic<16xf32, column>
  %2 = wave.combine %1 {kind = "max"} : !wave.statistic<16xf32, column> -> !wave.statistic<16xf32, column>
  %3 = "wave.map"(%s, %2, %x) ({
  ^bb0(%row: i32, %column: i32, %element: f32, %largest: f32, %scalar: f32):
    %d = arith.subf %element, %largest : f32
    wave.yield %d : f32
  }) {coordinates} : (!wave.fragment<16x16xf32, acc>, !wave.statistic<16xf32, column>, f32) -> !wave.fragment<16x16xf32, acc>
  wave.store_statistic %2, %p limit %i : !wave.statistic<16xf32, column>, !wave.pointer<f32>
  func.return
}
