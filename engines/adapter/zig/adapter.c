/* The adapter's code, for an engine in Zig: kvsim_adapter.zig has its declarations. */
#define KV_ADAPTER
#include "kvsim_adapter.h"
