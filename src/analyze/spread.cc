#include "analyze/spread.h"

#include <algorithm>

namespace stepscope {

namespace {

constexpr double kLeastShare = 0.01, kLeastMs = 0.01;
constexpr int kLeastParts = 3;

bool is_model(size_t category) {
  return category == index(Category::kForward) || category == index(Category::kBackward);
}

}  // namespace

Spread spread_of(const PhaseLevels& levels, double alike_share) {
  double before_ms = 0, after_ms = 0;
  for (size_t c = 0; c < kCategoryCount; ++c) {
    if (is_of_stalls(static_cast<Category>(c))) continue;
    before_ms += levels.before_ms[c];
    after_ms += levels.after_ms[c];
  }
  if (before_ms <= 0 || after_ms <= before_ms) return Spread::kSome;
  const double growth = after_ms / before_ms - 1, least_ms = std::max(kLeastMs, kLeastShare * before_ms);
  int parts = 0, model_parts = 0;
  bool all = true, model = true;
  for (size_t c = 0; c < kCategoryCount; ++c) {
    if (is_of_stalls(static_cast<Category>(c))) continue;
    // What was not there before has grown by more than any factor.
    if (levels.before_ms[c] < least_ms) {
      if (levels.after_ms[c] >= least_ms + levels.before_ms[c]) return Spread::kSome;
      continue;
    }
    const double own = levels.after_ms[c] / levels.before_ms[c] - 1;
    const bool alike = own >= alike_share * growth && own <= growth / alike_share;
    ++parts;
    all = all && alike;
    if (!is_model(c)) continue;
    ++model_parts;
    model = model && alike;
  }
  if (all && parts >= kLeastParts && parts > model_parts) return Spread::kAll;
  return model && model_parts == 2 ? Spread::kCompute : Spread::kSome;
}

}  // namespace stepscope
