"""Wave operations to LLVM IR for AMD GPUs."""
