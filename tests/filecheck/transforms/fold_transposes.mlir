// RUN: tessera-opt %s -p fold-transposes,dce | filecheck %s

// CHECK-LABEL: func.func @second
// CHECK-NEXT: %c = tessera.matmul(%a, %b) {transpose_b = true} : (tensor<4x8xf16>, tensor<6x8xf16>) -> tensor<4x6xf32>
func.func @second(%a: tensor<4x8xf16>, %b: tensor<6x8xf16>) -> tensor<4x6xf32> {
  %t = tessera.transpose %b : tensor<6x8xf16> -> tensor<8x6xf16>
  %c = tessera.matmul(%a, %t) : (tensor<4x8xf16>, tensor<8x6xf16>) -> tensor<4x6xf32>
  func.return %c : tensor<4x6xf32>
}

// Twice transposed is not transposed; a permutation of two axes counts as well.
// CHECK-LABEL: func.func @both
// CHECK-NEXT: %c = tessera.matmul(%a, %b) {transpose_a = false, transpose_b = true}
func.func @both(%a: tensor<4x8xf16>, %b: tensor<6x8xf16>) -> tensor<4x6xf32> {
  %s = tessera.permute %a {axes = array<i64: 1, 0>} : tensor<4x8xf16> -> tensor<8x4xf16>
  %t = tessera.transpose %b : tensor<6x8xf16> -> tensor<8x6xf16>
  %c = tessera.matmul(%s, %t) {transpose_a = true} : (tensor<8x4xf16>, tensor<8x6xf16>) -> tensor<4x6xf32>
  func.return %c : tensor<4x6xf32>
}

// A view that something else needs stays, and a reshape is no transpose.
// CHECK-LABEL: func.func @kept
// CHECK-NEXT: %t = tessera.transpose %b
// CHECK-NEXT: %r = tessera.reshape %b
// CHECK-NEXT: %c = tessera.matmul(%b, %r) : (tensor<6x8xf16>, tensor<8x6xf16>)
// CHECK-NEXT: func.return %c, %t
func.func @kept(%b: tensor<6x8xf16>) -> (tensor<6x6xf32>, tensor<8x6xf16>) {
  %t = tessera.transpose %b : tensor<6x8xf16> -> tensor<8x6xf16>
  %r = tessera.reshape %b {sizes = array<i64: 8, 6>} : tensor<6x8xf16> -> tensor<8x6xf16>
  %c = tessera.matmul(%b, %r) : (tensor<6x8xf16>, tensor<8x6xf16>) -> tensor<6x6xf32>
  func.return %c, %t : tensor<6x6xf32>, tensor<8x6xf16>
}
