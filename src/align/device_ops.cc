#include "align/device_ops.h"

namespace stepscope {

void DeviceOps::announced(const Event& nccl_op) {
  const auto op = static_cast<CollectiveOp>(nccl_op.d & 0xff);
  const bool message = op == CollectiveOp::kSend || op == CollectiveOp::kRecv;
  const auto peer = static_cast<uint16_t>(message ? nccl_op.d >> 16 : 0);
  bytes_[{nccl_op.a, static_cast<uint8_t>(op), peer, nccl_op.b}] = nccl_op.c;
  if (bytes_.size() > kMaxPending) bytes_.erase(bytes_.begin());
}

void DeviceOps::timed(const Event& nccl_time) {
  if (nccl_time.c == 0) return;
  DeviceOp op;
  op.group = nccl_time.a;
  op.sequence = nccl_time.b & 0xff'ffff'ffffull;
  op.peer = static_cast<uint16_t>(nccl_time.b >> 40);
  op.op = static_cast<uint8_t>(nccl_time.b >> 56);
  op.begin_ns = static_cast<int64_t>(nccl_time.c);
  op.end_ns = static_cast<int64_t>(nccl_time.d);
  if (const auto found = bytes_.find({op.group, op.op, op.peer, op.sequence}); found != bytes_.end()) {
    op.bytes = found->second;
    bytes_.erase(bytes_.lower_bound({op.group, op.op, op.peer, 0}), std::next(found));
  }
  done_.push_back(op);
  if (done_.size() > kMaxPending) done_.pop_front();
}

void DeviceOps::take_until(int64_t end_ns, std::vector<DeviceOp>& out) {
  while (!done_.empty() && done_.front().end_ns <= end_ns) {
    out.push_back(done_.front());
    done_.pop_front();
  }
}

}  // namespace stepscope
