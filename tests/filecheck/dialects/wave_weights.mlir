// RUN: tessera-opt %s | tessera-opt | filecheck %s
// RUN: tessera-opt %s --print-op-generic | tessera-opt | filecheck %s
// RUN: tessera-opt %s -p verify-level{level=kernel} | filecheck %s

// One scale, and one zero point, per 128-bit piece of a tile of 4-bit weights.
// CHECK-LABEL: func.func @weights
// CHECK-NEXT: %0 = "wave.stage_per_piece"(%p, %i, %i) : (!wave.pointer<f16>, i32, i32) -> !wave.staged<64x16xf16, per_piece>
// CHECK-NEXT: "wave.commit_dequantized"(%s, %0, %l) {dtype = "i4", operandSegmentSizes = array<i32: 1, 1, 0, 1>} : (!wave.staged<64x16xui8, rows>, !wave.staged<64x16xf16, per_piece>, !wave.lds<64x32xf16, 40>) -> ()
// CHECK-NEXT: "wave.commit_dequantized"(%s, %0, %0, %l) {dtype = "u4", operandSegmentSizes = array<i32: 1, 1, 1, 1>} : (!wave.staged<64x16xui8, rows>, !wave.staged<64x16xf16, per_piece>, !wave.staged<64x16xf16, per_piece>, !wave.lds<64x32xf16, 40>) -> ()
func.func @weights(%p: !wave.pointer<f16>, %i: i32, %s: !wave.staged<64x16xui8, rows>, %l: !wave.lds<64x32xf16, 40>) {
  %0 = "wave.stage_per_piece"(%p, %i, %i) : (!wave.pointer<f16>, i32, i32) -> !wave.staged<64x16xf16, per_piece>
  "wave.commit_dequantized"(%s, %0, %l) {dtype = "i4", operandSegmentSizes = array<i32: 1, 1, 0, 1>} : (!wave.staged<64x16xui8, rows>, !wave.staged<64x16xf16, per_piece>, !wave.lds<64x32xf16, 40>) -> ()
  "wave.commit_dequantized"(%s, %0, %0, %l) {dtype = "u4", operandSegmentSizes = array<i32: 1, 1, 1, 1>} : (!wave.staged<64x16xui8, rows>, !wave.staged<64x16xf16, per_piece>, !wave.staged<64x16xf16, per_piece>, !wave.lds<64x32xf16, 40>) -> ()
  func.return
}

// Two slices in one allocation.
// CHECK-LABEL: func.func @stages
// CHECK-NEXT: %0 = wave.lds_part %l[%i] : !wave.lds<128x32xf16, 40> -> !wave.lds<64x32xf16, 40>
func.func @stages(%l: !wave.lds<128x32xf16, 40>, %i: i32) {
  %0 = wave.lds_part %l[%i] : !wave.lds<128x32xf16, 40> -> !wave.lds<64x32xf16, 40>
  func.return
}
