// RUN: tessera-opt %s -p dce | filecheck %s

// CHECK-LABEL: func.func @f
// CHECK-NEXT: %c = tessera.matmul(%a, %a)
// CHECK-NEXT: func.return %c
func.func @f(%a: tensor<4x4xf16>) -> tensor<4x4xf32> {
  %c = tessera.matmul(%a, %a) : (tensor<4x4xf16>, tensor<4x4xf16>) -> tensor<4x4xf32>
  %d = tessera.matmul(%a, %a) {out_dtype = "f16"} : (tensor<4x4xf16>, tensor<4x4xf16>) -> tensor<4x4xf16>
  %e = tessera.elementwise(%d) {function = "relu"} : (tensor<4x4xf16>) -> tensor<4x4xf16>
  func.return %c : tensor<4x4xf32>
}

// A directive without results asks for its kernel: it is no dead code.
// CHECK: tessera_rocm.flash_attn {name = "fa"
// CHECK: tessera_rocm.wait {for_kernel = "fa"
tessera_rocm.flash_attn {name = "fa", head_dim = 64, dtype = "f16"} : () -> ()
tessera_rocm.wait {for_kernel = "fa", pending = 0}
