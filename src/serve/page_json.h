// The page model (report/page.h) as JSON: the browser draws what text and HTML draw. Pure.
#pragma once

#include <nlohmann/json.hpp>

#include "report/page.h"

namespace stepscope {

nlohmann::ordered_json page_json(const Page& page);
nlohmann::ordered_json verdict_json(const Verdict& verdict);
nlohmann::ordered_json table_json(const Table& table);

}  // namespace stepscope
