// How a view of text is drawn: compare, hang, whatif and the summary. Other formats take what concerns them.
#pragma once

#include <string>
#include <vector>

namespace stepscope {

struct TextOptions {
  bool color = false;
  int columns = 100;               // 60 to 400; outside of that the nearest
  std::string folder;              // where the run's files lie; "" = not named
  std::vector<std::string> files;  // their names in that folder
};

}  // namespace stepscope
