// RUN: tessera-opt %s --split-input-file --verify-diagnostics | filecheck %s

// CHECK: error: attribute 'name' expected in operation 'tile.matmul'
func.func @f(%a: tensor<?x?xf16>) {
  %c = tile.matmul(%a, %a) : (tensor<?x?xf16>, tensor<?x?xf16>) -> tensor<?x?xf32>
  func.return
}

// -----
// CHECK: error: tile.matmul: mt = 0 must be a positive integer
func.func @f(%a: tensor<?x?xf16>) {
  %c = tile.matmul(%a, %a) {name = "m", mt = 0} : (tensor<?x?xf16>, tensor<?x?xf16>) -> tensor<?x?xf32>
  func.return
}

// -----
// CHECK: error: tile.matmul: alignment = 3; supported: 1, 2, 4, 8, 16
func.func @f(%a: tensor<?x?xf16>) {
  %c = tile.matmul(%a, %a) {name = "m", alignment = 3} : (tensor<?x?xf16>, tensor<?x?xf16>) -> tensor<?x?xf32>
  func.return
}

// -----
// CHECK: error: tile.matmul: unknown attribute 'unroll'; supported: {{.*}}transpose_a, transpose_b, out_dtype
func.func @f(%a: tensor<?x?xf16>) {
  %c = tile.matmul(%a, %a) {name = "m", unroll = 3} : (tensor<?x?xf16>, tensor<?x?xf16>) -> tensor<?x?xf32>
  func.return
}

// -----
// CHECK: error: tile.flash_attn: flash_attn: takes 3 operands (q, k, v), got 0
tile.flash_attn {name = "fa"} : () -> ()

// -----
// CHECK: error: tile.flash_attn: keys_per_step = -16 must be a positive integer
func.func @f(%q: tensor<1x1x?x64xf16>) {
  %o, %lse = tile.flash_attn(%q, %q, %q) {name = "fa", keys_per_step = -16} : (tensor<1x1x?x64xf16>, tensor<1x1x?x64xf16>, tensor<1x1x?x64xf16>) -> (tensor<1x1x?x64xf16>, tensor<1x1x?xf32>)
  func.return
}

// -----
// CHECK: error: tile.elementwise: relu: takes one tensor and no scalar
func.func @f(%x: tensor<7xf16>) {
  %y = tile.elementwise(%x) {name = "relu_0", function = "relu", scalar = 1.0 : f64} : (tensor<7xf16>) -> tensor<7xf16>
  func.return
}

// -----
// CHECK: error: tile.view: unknown view kind 'slice'; supported: reshape, permute
func.func @f(%x: tensor<7xf16>) {
  %y = tile.view %x {kind = "slice", parameters = array<i64: 1>} : tensor<7xf16> -> tensor<1xf16>
  func.return
}
