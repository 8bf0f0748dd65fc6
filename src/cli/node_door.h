// The aggregator's door for frames of other nodes: a server of the room `serve` that takes frames and shows nothing.
#pragma once

#include "agent/node_link.h"

namespace stepscope {

Result<std::unique_ptr<NodeDoor>> open_node_door(const DoorPlace& place);

}  // namespace stepscope
