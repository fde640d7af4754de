// RUN: tessera-opt %s -p cse | filecheck %s

// CHECK-LABEL: func.func @f
// CHECK-NEXT: %c = tessera.matmul(%a, %a)
// CHECK-NEXT: %e = tessera.elementwise(%c, %c)
func.func @f(%a: tensor<4x4xf16>) -> tensor<4x4xf32> {
  %c = tessera.matmul(%a, %a) : (tensor<4x4xf16>, tensor<4x4xf16>) -> tensor<4x4xf32>
  %d = tessera.matmul(%a, %a) : (tensor<4x4xf16>, tensor<4x4xf16>) -> tensor<4x4xf32>
  %e = tessera.elementwise(%c, %d) {function = "add"} : (tensor<4x4xf32>, tensor<4x4xf32>) -> tensor<4x4xf32>
  func.return %e : tensor<4x4xf32>
}
