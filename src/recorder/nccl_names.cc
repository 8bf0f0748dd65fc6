#include "recorder/nccl_names.h"

#include <strings.h>

#include <cstring>

namespace stepscope::recorder::nccl {
namespace {

template <class T>
struct Entry {
  const char* name;
  T value;
};

template <class T, size_t N>
T look_up(const Entry<T> (&table)[N], const char* text, T otherwise) noexcept {
  if (!text) return otherwise;
  if (::strncasecmp(text, "nccl", 4) == 0) text += 4;
  for (const Entry<T>& entry : table)
    if (::strcasecmp(entry.name, text) == 0) return entry.value;
  return otherwise;
}

}  // namespace

CollectiveOp op_of(const char* func) noexcept {
  using enum CollectiveOp;
  static constexpr Entry<CollectiveOp> kTable[] = {
      {"AllReduce", kAllReduce}, {"AllGather", kAllGather}, {"ReduceScatter", kReduceScatter},
      {"Broadcast", kBroadcast}, {"Reduce", kReduce},       {"Send", kSend},
      {"Recv", kRecv},           {"AlltoAll", kAllToAll},   {"Gather", kGather},
      {"Scatter", kScatter},
  };
  return look_up(kTable, func, kUnknown);
}

uint32_t datatype_bytes(const char* datatype) noexcept {
  static constexpr Entry<uint32_t> kTable[] = {
      {"Float32", 4}, {"Bfloat16", 2}, {"Float16", 2}, {"Half", 2},       {"Int8", 1},       {"Char", 1},
      {"Uint8", 1},   {"Float", 4},    {"Int32", 4},   {"Int", 4},        {"Uint32", 4},     {"Int64", 8},
      {"Uint64", 8},  {"Float64", 8},  {"Double", 8},  {"Float8e4m3", 1}, {"Float8e5m2", 1},
  };
  return look_up(kTable, datatype, 0u);
}

NcclAlgo algo_of(const char* algo) noexcept {
  using enum NcclAlgo;
  static constexpr Entry<NcclAlgo> kTable[] = {
      {"RING", kRing},
      {"TREE", kTree},
      {"NVLS", kNvls},
      {"NVLS_TREE", kNvlsTree},
      {"NVLSTREE", kNvlsTree},
      {"PAT", kPat},
      {"COLLNET_DIRECT", kCollnetDirect},
      {"COLLNETDIRECT", kCollnetDirect},
      {"COLLNET_CHAIN", kCollnetChain},
      {"COLLNETCHAIN", kCollnetChain},
  };
  return look_up(kTable, algo, kUnknown);
}

NcclProto proto_of(const char* proto) noexcept {
  using enum NcclProto;
  static constexpr Entry<NcclProto> kTable[] = {{"SIMPLE", kSimple}, {"LL", kLl}, {"LL128", kLl128}};
  return look_up(kTable, proto, kUnknown);
}

}  // namespace stepscope::recorder::nccl
