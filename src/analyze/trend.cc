#include "analyze/trend.h"

#include <algorithm>
#include <cmath>

#include "analyze/growth.h"
#include "analyze/robust.h"

namespace stepscope {

namespace {

constexpr size_t kMaxBlocks = 32, kMinBlocks = 8, kMinLength = 4;
constexpr size_t kLeastSide = 2;      // blocks on either side of a change: one alone is a burst
constexpr double kSlopeShare = 0.25;  // of the move, by which a level itself moves where there is a slope

struct Block {
  size_t begin = 0, end = 0;
  double level = 0;
};

std::vector<Block> blocks_of(const std::vector<double>& values) {
  const size_t count = std::min(kMaxBlocks, values.size() / kMinLength);
  std::vector<Block> blocks;
  for (size_t b = 0; b < count; ++b) {
    Block block{b * values.size() / count, (b + 1) * values.size() / count, 0};
    block.level =
        median({values.begin() + static_cast<long>(block.begin), values.begin() + static_cast<long>(block.end)});
    blocks.push_back(block);
  }
  return blocks;
}

// Of one block's median, from neighbours: a trend moves all differences alike, a change one of them.
double noise_of(const std::vector<Block>& blocks) {
  std::vector<double> steps;
  for (size_t b = 1; b < blocks.size(); ++b) steps.push_back(blocks[b].level - blocks[b - 1].level);
  return mad_sigma(steps) / std::sqrt(2.0);
}

double level(const std::vector<Block>& blocks, size_t from, size_t to) {
  std::vector<double> list;
  for (size_t b = from; b < to; ++b) list.push_back(blocks[b].level);
  return median(std::move(list));
}

struct Fit {
  double before = 0, after = 0, deviation = 0;
  size_t split = 0;  // block
  double tau = 0;
};

Fit change_fit(const std::vector<Block>& blocks) {
  Fit best{.deviation = std::numeric_limits<double>::infinity()};
  for (size_t split = kLeastSide; split + kLeastSide <= blocks.size(); ++split) {
    Fit fit{level(blocks, 0, split), level(blocks, split, blocks.size()), 0, split, 0};
    for (size_t b = 0; b < blocks.size(); ++b)
      fit.deviation += std::abs(blocks[b].level - (b < split ? fit.before : fit.after));
    if (fit.deviation < best.deviation) best = fit;
  }
  return best;
}

// Of the line of Theil and Sen over the levels of the blocks from..to, per block.
double slope_of(const std::vector<Block>& blocks, size_t from, size_t to) {
  std::vector<double> place, level;
  for (size_t b = from; b < to; ++b) place.push_back(static_cast<double>(b)), level.push_back(blocks[b].level);
  return theil_sen_slope(place, level);
}

// Kendall's: of all pairs of blocks, those that rise less those that fall.
double tau_of(const std::vector<Block>& blocks) {
  double order = 0, pairs = 0;
  for (size_t a = 0; a < blocks.size(); ++a)
    for (size_t b = a + 1; b < blocks.size(); ++b, ++pairs)
      order += blocks[b].level > blocks[a].level ? 1 : blocks[b].level < blocks[a].level ? -1 : 0;
  return order / pairs;
}

Fit drift_fit(const std::vector<Block>& blocks) {
  std::vector<double> intercepts;
  Fit fit;
  fit.tau = tau_of(blocks);
  const double slope = slope_of(blocks, 0, blocks.size());
  for (size_t b = 0; b < blocks.size(); ++b) intercepts.push_back(blocks[b].level - slope * static_cast<double>(b));
  fit.before = median(std::move(intercepts));
  fit.after = fit.before + slope * static_cast<double>(blocks.size() - 1);
  for (size_t b = 0; b < blocks.size(); ++b)
    fit.deviation += std::abs(blocks[b].level - fit.before - slope * static_cast<double>(b));
  return fit;
}

// By how much the blocks from..to rise or fall among themselves, end to end.
double inner_move(const std::vector<Block>& blocks, size_t from, size_t to) {
  return slope_of(blocks, from, to) * static_cast<double>(to - from - 1);
}

// Two levels that both move the way of the step between them are a slope with a kink, wherever the line fits worst.
bool levels_slope(const std::vector<Block>& blocks, const Fit& change) {
  const double move = change.after - change.before;
  const double left = inner_move(blocks, 0, change.split) / move,
               right = inner_move(blocks, change.split, blocks.size()) / move;
  return left > kSlopeShare && right > 0 && left + right > 2 * kSlopeShare;
}

// The first value of the new level within the two blocks around the split: where the sum of absolute deviations is
// least.
size_t located(const std::vector<double>& values, const std::vector<Block>& blocks, const Fit& fit) {
  const size_t begin = blocks[fit.split - 1].begin, end = blocks[fit.split].end;
  double cost = 0;  // of "all of them are on the new level", then one after the other moves to the old one
  for (size_t i = begin; i < end; ++i) cost += std::abs(values[i] - fit.after);
  double least = cost;
  size_t at = begin;
  for (size_t i = begin; i < end; ++i) {
    cost += std::abs(values[i] - fit.before) - std::abs(values[i] - fit.after);
    if (cost < least) least = cost, at = i + 1;
  }
  return at;
}

}  // namespace

std::optional<Trend> trend_of(const std::vector<double>& values, const TrendLimits& limits) {
  if (values.size() < kMinBlocks * kMinLength ||
      !std::all_of(values.begin(), values.end(), [](double v) { return std::isfinite(v); }))
    return std::nullopt;
  const std::vector<Block> blocks = blocks_of(values);
  const double noise = noise_of(blocks);
  const Fit change = change_fit(blocks), drift = drift_fit(blocks);
  Trend trend;
  trend.drifts =
      drift.deviation < change.deviation || (std::abs(drift.tau) >= limits.min_tau && levels_slope(blocks, change));
  const Fit& fit = trend.drifts ? drift : change;
  const double move = std::abs(fit.after - fit.before);
  // Of a difference of two levels, each the median of its blocks; a line's ends are known about as well as those of
  // halves.
  const auto count = static_cast<double>(blocks.size());
  const double left = trend.drifts ? count / 2 : static_cast<double>(fit.split), right = count - left;
  const double sigma = noise * std::sqrt(1 / left + 1 / right);
  if (!(fit.before > 0) || move < limits.min_share * fit.before || move < limits.min_sigmas * sigma)
    return std::nullopt;
  if (trend.drifts && std::abs(drift.tau) < limits.min_tau) return std::nullopt;
  trend.before = fit.before;
  trend.after = fit.after;
  trend.sigmas = sigma > 0 ? move / sigma : std::numeric_limits<double>::infinity();
  if (!trend.drifts) trend.from = located(values, blocks, fit);
  double sum = 0, excess = 0;
  for (const Block& block : blocks) {
    const auto length = static_cast<double>(block.end - block.begin);
    sum += length * block.level;
    excess += length * (block.level - fit.before);
  }
  trend.excess_share = sum > 0 ? excess / sum : 0;
  return trend;
}

}  // namespace stepscope
