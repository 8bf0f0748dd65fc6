// What a record can say. The hot path writes these raw events; steps, phases and roles are worked out by the reader.
// Numbers are part of the file format: never reuse one, append only. A reader skips kinds that it does not know.
#pragma once

#include <cstdint>

namespace stepscope {

enum class Edge : uint8_t { kMark = 0, kBegin = 1, kEnd = 2 };

// name, number, meaning of a, b, c, d (flags)
// clang-format off
#define STEPSCOPE_EVENT_KINDS(X)                                                                                      \
  X(Process, 1)       /* mark; a = ProcessEvent */                                                                    \
  X(Step, 2)          /* span: trace_step body. An end without a begin and with flag kStepBoundary is an explicit   \
                         boundary (stepscope_step of the C ABI): the step ends at it, whatever optimizers did */      \
  X(UserPhase, 3)     /* span: trace_phase; a = name id (NameKind::Phase) */                                          \
  X(Optimizer, 4)     /* span; a = optimizer id */                                                                    \
  X(ScalerStep, 5)    /* span around GradScaler.step; a = optimizer id; end: flags kScalerOff */                       \
  X(Backward, 6)      /* span, outermost only; a = 1 accumulates gradients, 0 = autograd.grad */                      \
  X(BackwardOwn, 7)   /* mark: own backward compute ended, before DDP's finalizer waits */                            \
  X(Forward, 8)       /* span of a root module; a = module id; begin: b = elements of its inputs, 0 = not told;       \
                         flags: kForwardGrad, kForwardTraining */                                                     \
  X(Fetch, 9)         /* span of DataLoader __next__; a = loader id; end: b in flight, c ready, d out of order;     \
                         flags kFetchStop at StopIteration, kFetchError when it raised */                             \
  X(LoaderCreate, 10) /* span of iterator creation; a = loader id, b = num_workers, c = batch size or 0 */            \
  X(Collective, 11)   /* mark at issue; a = group id, b = sequence, c = bytes, d = CollectiveOp | peer << 16;        \
                         flags kCollectiveAsync, kCollectiveP2p */                                                    \
  X(CollectiveDone, 12) /* mark at completion; a, b, d as Collective */                                               \
  X(Wait, 13)         /* span blocked in Work.wait or a synchronous collective; a = group id, b = sequence */         \
  X(Gc, 14)           /* span; a = generation; end: b = collected */                                                  \
  X(Save, 15)         /* span, outermost; a = SaveApi; end: b = bytes or 0 */                                         \
  X(Compile, 16)      /* span; a = trigger, b = frame hash */                                                         \
  X(H2d, 17)          /* span; a = bytes; flags kH2dPinned */                                                         \
  X(Usage, 18)        /* mark on the training thread; a = thread CPU ns, b = involuntary, c = voluntary switches,    \
                         d = major faults; all since thread start */                                                  \
  X(Value, 19)        /* mark; a = name id (NameKind::Value), b = bits of a double */                                 \
  X(Exception, 20)    /* mark, uncaught; a = name id (NameKind::Exception) */                                         \
  X(InitGroup, 21)    /* span of init_process_group */                                                                \
  X(WorkerFetch, 22)  /* span in a loader worker; a = worker id, b = loader id, c = items */                          \
  X(Sync, 23)         /* span of a blocking device sync; a = call-site name id */                                     \
  X(Memory, 24)       /* mark; a = allocated, b = reserved, c = active, d = inactive-split bytes */                   \
  X(MemoryCounters, 25) /* mark; a = alloc retries, b = OOMs, c = device allocs, d = device frees */                  \
  X(GpuMark, 26)      /* resolved boundary event; time = host time of the mark; a = Kind | Edge << 8, b = id of that  \
                         kind, c = GPU time mapped to host ns, d = GPU clock ns (int64); flags GpuMark flags.         \
                         docs/formats/gpu_events.md has all device records */                                         \
  X(NcclOp, 27)       /* time = the API call; a = communicator hash, b = sequence, c = bytes, d = CollectiveOp |      \
                         peer << 16; flags NcclOp flags */                                                            \
  X(NcclTime, 28)     /* device span of that op; a = communicator hash, b = sequence | peer << 40 | op << 56 (peer    \
                         0 but for send and recv), c = start, d = end (GPU clock mapped to host ns; c = 0: only the   \
                         end is known); flags NcclTimeSource */                                                       \
  X(NcclComm, 29)     /* communicator made (begin) or gone (end); a = hash, b = rank in it, c = its size, d = nodes */ \
  X(Teardown, 30)     /* span: destroy_process_group */                                                               \
  X(OutOfMemory, 31)  /* mark; a = requested, b = allocated, c = reserved, d = device capacity, all bytes */          \
  X(Rendezvous, 32)   /* mark: the rank has come to a place where all ranks of the job meet; a = RendezvousPlace */    \
  X(NcclEnqueue, 33)  /* launch of that op on the host, time = before the launch; a = communicator hash, b = as in   \
                         NcclTime, c = NcclAlgo | NcclProto << 8 | channels << 16, d = stream */                      \
  X(Scheduler, 34)    /* mark: LR scheduler advanced; a = scheduler id, b = its own count of steps after it, 1 as it is \
                         made, 0 = not told; flags kSchedulerSet */                                                  \
  X(Shape, 35)        /* mark: items of the current batch; a = samples, b = tokens or elements */ \
  X(GpuStatus, 36)    /* mark by the poller, each 10 s and at a change; a = marks resolved, b = marks missing, c = CUDA  \
                         errors | newest code << 32, d = half width of the clock bracket in ns */                     \
  X(MemoryPeak, 37)   /* mark; a = peak allocated, b = peak reserved as the allocator says (the user may reset it) */   \
  X(OutOfMemoryDetail, 38) /* follows OutOfMemory; a = largest free block, b = free on the device, c = inactive split,  \
                         d = bytes allocated since the previous memory mark */                                       \
  X(LoaderEnd, 39)    /* span: the workers of an iterator are told to end and waited for; a = loader id */             \
  X(Scalar, 40)       /* mark: a number that training itself computes; a = ScalarOf, b = bits of a double, c = host     \
                         time at which the program had it where a device tells it later, else 0; d, of a learning rate: \
                         tensors that the optimizer has a state of, or else of its groups */
// clang-format on

enum class Kind : uint8_t {
#define X(name, number) k##name = number,
  STEPSCOPE_EVENT_KINDS(X)
#undef X
};

constexpr uint16_t pack_kind(Kind kind, Edge edge) {
  return static_cast<uint16_t>(static_cast<uint16_t>(kind) | static_cast<uint16_t>(edge) << 8);
}
constexpr Kind kind_of(uint16_t packed) { return static_cast<Kind>(packed & 0xff); }
constexpr Edge edge_of(uint16_t packed) { return static_cast<Edge>(packed >> 8); }

// Text for a kind number, "?" for one that this build does not know.
constexpr const char* kind_name(Kind kind) {
  switch (kind) {
#define X(name, number) \
  case Kind::k##name: return #name;
    STEPSCOPE_EVENT_KINDS(X)
#undef X
  }
  return "?";
}

enum class ProcessEvent : uint64_t {
  kTorchImported = 1,
  kRankKnown = 2,  // identity was filled in
  kExit = 3,       // atexit handlers run
  kExec = 4,
};

// Of what a Scalar tells: the tensor that backward was called on; the norm that torch.nn.utils computed; the learning
// rate of the first group of parameters, as the optimizer steps.
enum class ScalarOf : uint64_t { kLoss = 1, kGradNorm = 2, kLearningRate = 3 };

enum class RendezvousPlace : uint64_t { kDistributedDataParallel = 1 };  // its constructor

enum class SaveApi : uint64_t { kTorch = 1, kDistributed = 2, kSafetensors = 3 };

// The names follow c10d; numbers are ours.
enum class CollectiveOp : uint8_t {
  kUnknown = 0,
  kAllReduce = 1,
  kAllGather = 2,
  kReduceScatter = 3,
  kBroadcast = 4,
  kReduce = 5,
  kGather = 6,
  kScatter = 7,
  kAllToAll = 8,
  kBarrier = 9,
  kSend = 10,
  kRecv = 11,
  kMonitoredBarrier = 12,
};

inline constexpr uint16_t kStepBoundary = 1 << 0;
inline constexpr uint16_t kForwardGrad = 1 << 0, kForwardTraining = 1 << 1;
inline constexpr uint16_t kFetchStop = 1 << 0, kFetchError = 1 << 1;
inline constexpr uint16_t kCollectiveAsync = 1 << 0, kCollectiveP2p = 1 << 1;
inline constexpr uint16_t kH2dPinned = 1 << 0;
inline constexpr uint16_t kScalerOff = 1 << 0;     // made with enabled=False: it scales nothing
inline constexpr uint16_t kSchedulerSet = 1 << 0;  // step(epoch): it was set, not advanced
// GpuMark: the stream was capturing, so nothing was recorded (c = d = 0); the GPU reached the mark right after the host
// recorded it, so it had run dry.
inline constexpr uint16_t kGpuCaptured = 1 << 0, kGpuHostBound = 1 << 1;
// NcclOp: part of a captured graph (its sequence does not advance); several ops share one kernel launch; done by copy
// engines; send or receive.
inline constexpr uint16_t kNcclCaptured = 1 << 0, kNcclGrouped = 1 << 1, kNcclCopyEngine = 1 << 2, kNcclP2p = 1 << 3;
// NcclTime: where the device times come from. kKernelPolled: host clock of NCCL's proxy thread (NCCL 2.26).
enum class NcclTimeSource : uint16_t { kOwnEvents = 1, kKernelClock = 2, kKernelPolled = 3, kOwnEndEvent = 4 };
// NcclEnqueue. Names as NCCL prints them; numbers are ours.
enum class NcclAlgo : uint8_t {
  kUnknown = 0,
  kTree = 1,
  kRing = 2,
  kCollnetDirect = 3,
  kCollnetChain = 4,
  kNvls = 5,
  kNvlsTree = 6,
  kPat = 7,
};
enum class NcclProto : uint8_t { kUnknown = 0, kLl = 1, kLl128 = 2, kSimple = 3 };
// GpuMark of Kind::Wait: which wait point of the library the mark stands before or after (its id).
enum class GpuWaitPoint : uint64_t { kWork = 0, kFsdpUnshard = 1, kFsdpReduceScatter = 2 };

// Kinds of entries in the names region.
enum class NameKind : uint16_t {
  kModule = 1,       // class name of a root module
  kOptimizer = 2,    // class name
  kLoader = 3,       // "DataLoader(workers=4,batch=16,pin=0,persistent=0,dataset=Toy)"
  kGroup = 4,        // "desc|0,1,8-15,16-72:8" global ranks, from-to:step; text before '|' may be empty
  kPhase = 5,        // trace_phase
  kValue = 6,        // log() key
  kException = 7,    // "ValueError: NaN loss in batch 150"
  kUnavailable = 8,  // "signal: reason"
  kFact = 9,         // "key=value": torch=2.15.0, nccl=…, device=cpu
  kMesh = 10,        // "dp,tp|2,2|<this rank's coordinate>|<group ids>"
  kCallSite = 11,    // "train.py:120"
  kAdvice = 12,      // "loader|workers=4;batch=16": configuration seen from the live objects, "subject|name=value;…"
  kTraceback = 13,   // of the exception with the same id: "12 load train.py < 40 main train.py", innermost first
};

}  // namespace stepscope
