// RUN: tessera-opt %s -p tile-to-rocm --split-input-file --verify-diagnostics | filecheck %s

// CHECK: error: tile-to-rocm: tile.matmul 'm' has no schedule; run assign-schedules first
func.func @f(%a: tensor<?x?xf16>) {
  %c = tile.matmul(%a, %a) {name = "m", mt = 1} : (tensor<?x?xf16>, tensor<?x?xf16>) -> tensor<?x?xf32>
  func.return
}
