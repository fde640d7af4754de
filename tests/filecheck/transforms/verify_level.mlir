// RUN: tessera-opt %s -p verify-level{level=graph} --split-input-file --verify-diagnostics | filecheck %s --check-prefix GRAPH
// RUN: tessera-opt %s -p verify-level{level=target} --split-input-file --verify-diagnostics | filecheck %s --check-prefix TARGET
// RUN: tessera-opt %s -p verify-level --split-input-file --verify-diagnostics | filecheck %s --check-prefix ANY
// RUN: tessera-opt %s -p verify-level{level=asm} --split-input-file --verify-diagnostics | filecheck %s --check-prefix UNKNOWN

// GRAPH: tessera.elementwise
// TARGET: error: tessera.elementwise is not legal at level target in @graph; supported: builtin.module, func.func, func.return, tessera_rocm.*
// ANY: tessera.elementwise
// UNKNOWN: error: unknown level 'asm'; supported: graph, tile, target, kernel
func.func @graph(%x: tensor<4xf16>) -> tensor<4xf16> {
  %y = tessera.elementwise(%x) {function = "relu"} : (tensor<4xf16>) -> tensor<4xf16>
  func.return %y : tensor<4xf16>
}

// -----
// GRAPH: error: tessera_rocm.flash_attn is not legal at level graph; supported: builtin.module, func.func, func.return, tessera.*
// TARGET: tessera_rocm.flash_attn
// ANY: tessera_rocm.flash_attn
tessera_rocm.flash_attn {name = "fa", head_dim = 64, dtype = "f16"} : () -> ()

// -----
// Without a level, the furthest op decides: what the others belong to is named.
// GRAPH: error: tessera_rocm.flash_attn is not legal at level graph
// TARGET: error: tessera.elementwise is not legal at level target in @mixed
// ANY: error: tessera.elementwise is not legal at level target in @mixed
tessera_rocm.flash_attn {name = "fa", head_dim = 64, dtype = "f16"} : () -> ()
func.func @mixed(%x: tensor<4xf16>) -> tensor<4xf16> {
  %y = tessera.elementwise(%x) {function = "relu"} : (tensor<4xf16>) -> tensor<4xf16>
  func.return %y : tensor<4xf16>
}

// -----
// GRAPH: error: tessera_rocm.launch is not legal at level graph in @launched
// TARGET: error: tessera_rocm.launch is not legal at level target in @launched
// ANY: tessera_rocm.launch
func.func @launched(%a: tensor<4x4xf16>) {
  %c = tessera_rocm.launch(%a, %a) {contract = "matmul", options = {}, rules = "[]"} : (tensor<4x4xf16>, tensor<4x4xf16>) -> tensor<4x4xf32>
  func.return
}
