#include "diagnose/thresholds.h"

namespace stepscope {

Status Thresholds::set(const std::string& name, double value) {
#define X(field, unused)   \
  if (name == #field) {    \
    field = value;         \
    return {};             \
  }
  STEPSCOPE_THRESHOLDS(X)
#undef X
  return fail("no threshold is called '" + name + "' (spec/rules.toml lists them)");
}

std::map<std::string, double> Thresholds::values() const {
  return {
#define X(field, unused) {#field, field},
      STEPSCOPE_THRESHOLDS(X)
#undef X
  };
}

}  // namespace stepscope
