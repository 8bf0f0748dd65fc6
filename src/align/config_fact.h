// The text form of a fact about the program's set-up, "loader|workers=4;batch=16": as hooks write it and run files keep
// it. Reading trusts no byte. Pure.
#pragma once

#include <string>
#include <string_view>

#include "align/rank_step.h"

namespace stepscope {

ConfigFact parse_config_fact(uint64_t id, std::string_view text);
std::string config_fact_text(const ConfigFact& fact);

// Puts `fact` in the place of what was known of its subject and id; a bounded list.
void keep_config_fact(std::vector<ConfigFact>& known, ConfigFact fact);

}  // namespace stepscope
