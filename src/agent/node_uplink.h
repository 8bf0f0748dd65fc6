// The way of a node's frames to the aggregator: HTTP/1.1 with keep-alive, one POST at a time, on a thread of its own.
// A frame is sent again until it is answered, after 0.2 s at first and up to 10 s when nobody answers. The agent's
// thread never waits for it: names are looked up, connections made and ended over there.
//
// Refused for good (never retried): a secret or version that does not fit, while nothing was ever taken in. Once frames
// were taken in, a wrong secret is taken for somebody else under that address, and tried again.
#pragma once

#include <memory>

#include "agent/node_link.h"

namespace stepscope {

// Null where no thread is to be had.
std::unique_ptr<NodeUplink> open_node_uplink(const AggregatorPlace& place);

}  // namespace stepscope
