// What is answered to a frame that one node of a job sent to another.
#pragma once

#include <string>

namespace stepscope {

struct FrameReply {
  int status = 200;  // 200 taken in; else an HTTP status: no frame, another version, too large, too many
  std::string body;  // of 200: bytes for the sender; else one line for people
};

}  // namespace stepscope
