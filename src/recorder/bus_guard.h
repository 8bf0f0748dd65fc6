// Keeps a truncated ring from killing the training.
//
// Storing into a mapping whose file was cut short raises SIGBUS. The guard answers it, for our mappings only, by
// putting private memory in their place, set aside beforehand: the store succeeds, the recorder turns itself off. Every
// other SIGBUS, and one for which there is no memory, goes to the handler that was there before, or kills as it would
// have without us. Installed once, when the first ring is opened; never removed, since a thread may still be on its way
// into the ring.
#pragma once

#include <cstddef>

namespace stepscope::recorder {

// Adds a mapping; the 8 newest of a process are guarded. Not thread-safe (called by the owner of `busy`).
void guard_mapping(void* base, size_t bytes) noexcept;

}  // namespace stepscope::recorder
