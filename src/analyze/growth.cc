#include "analyze/growth.h"

#include <algorithm>
#include <array>
#include <cmath>

#include "analyze/robust.h"

namespace stepscope {
namespace {

constexpr size_t kMaxPoints = 64;

struct Points {
  std::vector<double> x, y;
  size_t size() const { return x.size(); }
};

Points one_per_x(std::span<const double> x, std::span<const double> y) {
  Points p;
  const size_t n = std::min(x.size(), y.size());
  for (size_t i = 0; i < n; ++i) {
    if (!std::isfinite(x[i]) || !std::isfinite(y[i])) continue;
    if (!p.x.empty() && x[i] <= p.x.back()) {
      p.y.back() = y[i];
      continue;
    }
    p.x.push_back(x[i]);
    p.y.push_back(y[i]);
  }
  return p;
}

Points averaged(const Points& p, size_t limit) {
  if (p.size() <= limit) return p;
  Points out;
  for (size_t k = 0; k < limit; ++k) {
    const size_t begin = k * p.size() / limit, end = (k + 1) * p.size() / limit;
    double sx = 0, sy = 0;
    for (size_t i = begin; i < end; ++i) {
      sx += p.x[i];
      sy += p.y[i];
    }
    out.x.push_back(sx / static_cast<double>(end - begin));
    out.y.push_back(sy / static_cast<double>(end - begin));
  }
  return out;
}

double interpolate(const Points& p, double x) {
  const auto it = std::lower_bound(p.x.begin(), p.x.end(), x);
  if (it == p.x.begin()) return p.y.front();
  if (it == p.x.end()) return p.y.back();
  const auto i = static_cast<size_t>(it - p.x.begin());
  const double w = (x - p.x[i - 1]) / (p.x[i] - p.x[i - 1]);
  return p.y[i - 1] + w * (p.y[i] - p.y[i - 1]);
}

// Growth in each quarter of the range of x.
std::array<double, 4> quarters(const Points& p) {
  std::array<double, 4> out{};
  const double begin = p.x.front(), span = p.x.back() - begin;
  double last = p.y.front();
  for (size_t q = 0; q < 4; ++q) {
    const double y = interpolate(p, begin + span * static_cast<double>(q + 1) / 4);
    out[q] = y - last;
    last = y;
  }
  return out;
}

struct Stairs {
  int count = 0;
  double height = 0, share = 0, flat_share = 0, largest = 0;  // share of the growth that the stairs explain
  bool goes_on = false;  // the last one is not overdue and not lower than the others
};

Stairs find_stairs(const Points& p, double growth) {
  std::vector<double> d, magnitude;
  for (size_t i = 1; i < p.size(); ++i) {
    d.push_back(p.y[i] - p.y[i - 1]);
    magnitude.push_back(std::abs(d.back()));
  }
  Stairs s;
  // A stair towers over the ordinary change from point to point and matters for the whole. One that was cut by the
  // sampling lies in two intervals: neighbours belong together.
  const double limit = std::max(5 * median(magnitude), 0.04 * growth);
  std::vector<double> heights, at;
  size_t stair_intervals = 0;
  for (size_t i = 0; i < d.size(); ++i) {
    if (d[i] <= limit) continue;
    ++stair_intervals;
    if (i > 0 && d[i - 1] > limit) {
      heights.back() += d[i];
    } else {
      heights.push_back(d[i]);
      at.push_back(p.x[i + 1]);
    }
  }
  if (heights.empty()) return s;
  double sum = 0;
  for (double h : heights) sum += h;
  s.count = static_cast<int>(heights.size());
  s.height = median(heights);
  s.largest = *std::max_element(heights.begin(), heights.end());
  s.share = sum / growth;
  s.flat_share = 1 - static_cast<double>(stair_intervals) / static_cast<double>(d.size());
  if (s.count >= 2) {
    const double spacing = (at.back() - at.front()) / static_cast<double>(s.count - 1);
    s.goes_on = p.x.back() - at.back() <= 1.75 * spacing && heights.back() >= 0.5 * s.height;
  }
  return s;
}

bool dies_out(const std::array<double, 4>& q) {
  const double mean = (q[0] + q[1] + q[2] + q[3]) / 4;
  if (q[3] < 0.35 * mean) return true;
  return q[3] < 0.6 * q[0] && q[2] + q[3] < 0.75 * (q[0] + q[1]);
}

bool even(const std::array<double, 4>& q, double growth) {
  return std::all_of(q.begin(), q.end(), [&](double d) { return d > 0.1 * growth && d < 0.55 * growth; });
}

std::vector<double> slopes_of(const Points& p) {
  std::vector<double> slopes;
  slopes.reserve(p.size() * (p.size() - 1) / 2);
  for (size_t i = 0; i < p.size(); ++i) {
    for (size_t j = i + 1; j < p.size(); ++j) {
      if (p.x[j] > p.x[i]) slopes.push_back((p.y[j] - p.y[i]) / (p.x[j] - p.x[i]));
    }
  }
  return slopes;
}

double slope_of(const Points& p) {
  std::vector<double> slopes = slopes_of(p);
  return slopes.empty() ? 0 : median(std::move(slopes));
}

double end_median(const std::vector<double>& y, bool last) {
  const size_t k = std::max<size_t>(1, y.size() / 16);
  return last ? median({y.end() - static_cast<long>(k), y.end()})
              : median({y.begin(), y.begin() + static_cast<long>(k)});
}

}  // namespace

const char* name(GrowthShape shape) {
  switch (shape) {
    case GrowthShape::kTooShort: return "too_short";
    case GrowthShape::kFlat: return "flat";
    case GrowthShape::kLinear: return "linear";
    case GrowthShape::kJump: return "jump";
    case GrowthShape::kStaircase: return "staircase";
    case GrowthShape::kSaturating: return "saturating";
    case GrowthShape::kIrregular: return "irregular";
  }
  return "?";
}

SlopeRange theil_sen_range(std::span<const double> x, std::span<const double> y) {
  constexpr double z = 2.576;  // of a normal distribution, 99 % within
  const Points p = averaged(one_per_x(x, y), kMaxPoints);
  std::vector<double> slopes = slopes_of(p);
  if (slopes.empty()) return {};
  const auto n = static_cast<double>(p.size());
  const double pairs = static_cast<double>(slopes.size());
  const double reach = z * std::sqrt(n * (n - 1) * (2 * n + 5) / 18) / 2 / pairs;  // as a share of the pairs
  return {.slope = quantile(slopes, 0.5),
          .low = quantile(slopes, std::max(0.0, 0.5 - reach)),
          .high = quantile(slopes, std::min(1.0, 0.5 + reach))};
}

double theil_sen_slope(std::span<const double> x, std::span<const double> y) {
  return slope_of(averaged(one_per_x(x, y), kMaxPoints));
}

Growth classify_growth(std::span<const double> x, std::span<const double> y, const GrowthRule& rule) {
  const Points all = one_per_x(x, y);
  Growth g;
  g.points = static_cast<int>(all.size());
  if (g.points < std::max(rule.min_points, 3)) return g;
  const Points p = averaged(all, kMaxPoints);
  g.span = all.x.back() - all.x.front();
  g.slope = slope_of(p);
  std::vector<double> rest(p.size());
  for (size_t i = 0; i < p.size(); ++i) rest[i] = p.y[i] - g.slope * p.x[i];
  g.intercept = median(rest);
  g.growth = end_median(p.y, true) - end_median(p.y, false);
  if (g.growth <= 0 || g.growth < rule.min_growth) {
    g.shape = GrowthShape::kFlat;
    return g;
  }
  for (double& r : rest) r = std::abs(r - g.intercept);
  const double worst = *std::max_element(rest.begin(), rest.end());
  g.residual = median(rest) / g.growth;

  const Stairs stairs = find_stairs(all, g.growth);
  const auto q = quarters(p);
  // Stairs that add up to more than the growth came down again somewhere; one that towers over the rest is a jump.
  const bool alike = stairs.largest <= 3 * stairs.height;
  if (stairs.share >= 0.7 && stairs.share <= 1.3 && alike && stairs.flat_share >= rule.stair_flat_share) {
    g.stairs = stairs.count;
    g.stair_height = stairs.height;
    if (stairs.count < rule.min_stairs)
      g.shape = GrowthShape::kJump;
    else
      g.shape = stairs.goes_on ? GrowthShape::kStaircase : GrowthShape::kSaturating;
    return g;
  }
  if (stairs.largest >= 0.6 * g.growth) {
    g.stairs = stairs.count;
    g.stair_height = stairs.largest;
    g.shape = GrowthShape::kJump;
  } else if (dies_out(q)) {
    g.shape = GrowthShape::kSaturating;
  } else if (g.slope > 0 && even(q, g.growth) && g.residual <= rule.max_residual && worst <= 0.35 * g.growth) {
    g.shape = GrowthShape::kLinear;
  } else {
    g.shape = GrowthShape::kIrregular;
  }
  return g;
}

}  // namespace stepscope
