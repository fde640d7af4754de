// RUN: tessera-opt %s -p assign-schedules --split-input-file --verify-diagnostics | filecheck %s

// CHECK: error: tile.flash_attn 'fa': head_dim and head_dim_v must be known at compile time, got f16[?, ?, ?, ?], f16[?, ?, ?, ?], f16[?, ?, ?, ?]
func.func @f(%q: tensor<?x?x?x?xf16>) {
  %o, %lse = tile.flash_attn(%q, %q, %q) {name = "fa"} : (tensor<?x?x?x?xf16>, tensor<?x?x?x?xf16>, tensor<?x?x?x?xf16>) -> (tensor<?x?x?x?xf16>, tensor<?x?x?xf32>)
  func.return
}
