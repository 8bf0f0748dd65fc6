#include "diagnose/host_thresholds.h"

namespace stepscope {

Status HostThresholds::set(const std::string& name, double value) {
  const std::string plain = name.starts_with("host.") ? name.substr(5) : name;
#define X(field, unused)  \
  if (plain == #field) {  \
    field = value;        \
    return {};            \
  }
  STEPSCOPE_HOST_THRESHOLDS(X)
#undef X
  return fail("no threshold is called '" + name + "' (spec/rules.toml lists them)");
}

HostThresholds HostThresholds::with(const std::map<std::string, double>& overrides) {
  HostThresholds out;
  for (const auto& [name, value] : overrides) (void)out.set(name, value);
  return out;
}

std::map<std::string, double> HostThresholds::values() const {
  return {
#define X(field, unused) {#field, field},
      STEPSCOPE_HOST_THRESHOLDS(X)
#undef X
  };
}

}  // namespace stepscope
