// RUN: tessera-opt %s | tessera-opt | filecheck %s
// RUN: tessera-opt %s --print-op-generic | tessera-opt | filecheck %s
// RUN: tessera-opt %s --print-op-generic | filecheck %s --check-prefix GENERIC
// RUN: tessera-opt %s -p verify-level{level=graph} | filecheck %s

// CHECK-LABEL: func.func @plain
// CHECK-NEXT: %c = tessera.matmul(%a, %b) : (tensor<4x8xf16>, tensor<8x6xf16>) -> tensor<4x6xf32>
// GENERIC: %c = "tessera.matmul"(%a, %b) : (tensor<4x8xf16>, tensor<8x6xf16>) -> tensor<4x6xf32>
func.func @plain(%a: tensor<4x8xf16>, %b: tensor<8x6xf16>) -> tensor<4x6xf32> {
  %c = tessera.matmul(%a, %b) : (tensor<4x8xf16>, tensor<8x6xf16>) -> tensor<4x6xf32>
  func.return %c : tensor<4x6xf32>
}

// CHECK-LABEL: func.func @options
// CHECK-NEXT: %c = tessera.matmul(%a, %b) {transpose_a = true, transpose_b = true, out_dtype = "bf16", schedule = {mt = 1 : i64, nt = 2 : i64}} : (tensor<?x4xbf16>, tensor<6x?xbf16>) -> tensor<4x6xbf16>
// GENERIC: "tessera.matmul"(%a, %b) {transpose_a = true, transpose_b = true, out_dtype = "bf16", schedule = {mt = 1 : i64, nt = 2 : i64}}
func.func @options(%a: tensor<?x4xbf16>, %b: tensor<6x?xbf16>) -> tensor<4x6xbf16> {
  %c = tessera.matmul(%a, %b) {transpose_a = true, transpose_b = true, out_dtype = "bf16", schedule = {mt = 1, nt = 2}} : (tensor<?x4xbf16>, tensor<6x?xbf16>) -> tensor<4x6xbf16>
  func.return %c : tensor<4x6xbf16>
}

// CHECK-LABEL: func.func @attention
// CHECK-NEXT: %o, %lse = tessera.flash_attn(%q, %k, %v) {causal = "bottom_right", scale = 5.000000e-01 : f64} : (tensor<?x8x?x64xf16>, tensor<?x2x?x64xf16>, tensor<?x2x?x32xf16>) -> (tensor<?x8x?x32xf16>, tensor<?x8x?xf32>)
// GENERIC: %o, %lse = "tessera.flash_attn"(%q, %k, %v) {causal = "bottom_right", scale = 5.000000e-01 : f64}
func.func @attention(%q: tensor<?x8x?x64xf16>, %k: tensor<?x2x?x64xf16>, %v: tensor<?x2x?x32xf16>) -> tensor<?x8x?x32xf16> {
  %o, %lse = tessera.flash_attn(%q, %k, %v) {causal = "bottom_right", scale = 0.5 : f64} : (tensor<?x8x?x64xf16>, tensor<?x2x?x64xf16>, tensor<?x2x?x32xf16>) -> (tensor<?x8x?x32xf16>, tensor<?x8x?xf32>)
  func.return %o : tensor<?x8x?x32xf16>
}

// CHECK-LABEL: func.func @elementwise
// CHECK-NEXT: %0 = tessera.elementwise(%x, %y) {function = "add"} : (tensor<3x4xf32>, tensor<4xf32>) -> tensor<3x4xf32>
// CHECK-NEXT: %1 = tessera.elementwise(%0) {function = "mul", scalar = 2.000000e+00 : f64} : (tensor<3x4xf32>) -> tensor<3x4xf32>
// CHECK-NEXT: %2 = tessera.elementwise(%1) {function = "gelu_tanh"} : (tensor<3x4xf32>) -> tensor<3x4xf32>
// CHECK-NEXT: %3 = tessera.elementwise(%2) {function = "cast", out_dtype = "f16"} : (tensor<3x4xf32>) -> tensor<3x4xf16>
// GENERIC: %0 = "tessera.elementwise"(%x, %y) {function = "add"}
func.func @elementwise(%x: tensor<3x4xf32>, %y: tensor<4xf32>) -> tensor<3x4xf16> {
  %0 = tessera.elementwise(%x, %y) {function = "add"} : (tensor<3x4xf32>, tensor<4xf32>) -> tensor<3x4xf32>
  %1 = tessera.elementwise(%0) {function = "mul", scalar = 2.0 : f64} : (tensor<3x4xf32>) -> tensor<3x4xf32>
  %2 = tessera.elementwise(%1) {function = "gelu_tanh"} : (tensor<3x4xf32>) -> tensor<3x4xf32>
  %3 = tessera.elementwise(%2) {function = "cast", out_dtype = "f16"} : (tensor<3x4xf32>) -> tensor<3x4xf16>
  func.return %3 : tensor<3x4xf16>
}

// CHECK-LABEL: func.func @views
// CHECK-NEXT: %0 = tessera.reshape %x {sizes = array<i64: 1, -1, 2, 8>} : tensor<5x16xf16> -> tensor<1x5x2x8xf16>
// CHECK-NEXT: %1 = tessera.permute %0 {axes = array<i64: 0, 2, 1, 3>} : tensor<1x5x2x8xf16> -> tensor<1x2x5x8xf16>
// CHECK-NEXT: %2 = tessera.transpose %1 : tensor<1x2x5x8xf16> -> tensor<1x2x8x5xf16>
// GENERIC: %0 = "tessera.reshape"(%x) {sizes = array<i64: 1, -1, 2, 8>}
// GENERIC-NEXT: %1 = "tessera.permute"(%0) {axes = array<i64: 0, 2, 1, 3>}
// GENERIC-NEXT: %2 = "tessera.transpose"(%1) : (tensor<1x2x5x8xf16>) -> tensor<1x2x8x5xf16>
func.func @views(%x: tensor<5x16xf16>) -> tensor<1x2x8x5xf16> {
  %0 = tessera.reshape %x {sizes = array<i64: 1, -1, 2, 8>} : tensor<5x16xf16> -> tensor<1x5x2x8xf16>
  %1 = tessera.permute %0 {axes = array<i64: 0, 2, 1, 3>} : tensor<1x5x2x8xf16> -> tensor<1x2x5x8xf16>
  %2 = tessera.transpose %1 : tensor<1x2x5x8xf16> -> tensor<1x2x8x5xf16>
  func.return %2 : tensor<1x2x8x5xf16>
}

// CHECK-LABEL: func.func @attention_backward
// CHECK-NEXT: %dq, %dk, %dv, %dbias = tessera.flash_attn_bwd(%q, %k, %k, %q, %lse, %q, %bias, %slopes) {causal = "top_left", window_left = 3 : i64, window_right = 0 : i64, softcap = 5.000000e-01 : f64, bias_dtype = "bf16", alibi = true, bias_gradient = true} :
// GENERIC: %dq, %dk, %dv, %dbias = "tessera.flash_attn_bwd"(%q, %k, %k, %q, %lse, %q, %bias, %slopes)
func.func @attention_backward(%q: tensor<1x2x?x64xf16>, %k: tensor<1x1x?x64xf16>, %lse: tensor<1x2x?xf32>, %bias: tensor<2x1x?xbf16>, %slopes: tensor<2xf32>) -> tensor<1x2x?x64xf16> {
  %dq, %dk, %dv, %dbias = tessera.flash_attn_bwd(%q, %k, %k, %q, %lse, %q, %bias, %slopes) {causal = "top_left", window_left = 3 : i64, window_right = 0 : i64, softcap = 5.000000e-01 : f64, bias_dtype = "bf16", alibi = true, bias_gradient = true} : (tensor<1x2x?x64xf16>, tensor<1x1x?x64xf16>, tensor<1x1x?x64xf16>, tensor<1x2x?x64xf16>, tensor<1x2x?xf32>, tensor<1x2x?x64xf16>, tensor<2x1x?xbf16>, tensor<2xf32>) -> (tensor<1x2x?x64xf16>, tensor<1x1x?x64xf16>, tensor<1x1x?x64xf16>, tensor<2x1x?xbf16>)
  func.return %dq : tensor<1x2x?x64xf16>
}
