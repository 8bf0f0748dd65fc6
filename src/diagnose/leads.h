// Who leads whom in which step: for ranks that take turns at being late. A lead is a figure's difference to the mean of
// the step's ranks, without what the rank usually differs by (its median over the steps: a rank that is always late is
// a straggler's affair). Pure.
#pragma once

#include <algorithm>
#include <cstddef>
#include <map>
#include <utility>
#include <vector>

#include "analyze/robust.h"
#include "analyze/rows.h"

namespace stepscope {

class Leads {
 public:
  template <class Figure>
  Leads(const Rows& rows, Figure figure) {
    std::map<int, std::vector<double>> of_rank;
    for (const StepRow* row : rows.rows) {
      std::vector<double>& leads = lead_.emplace_back();
      double sum = 0;
      for (const Cell& cell : row->cells) sum += leads.emplace_back(figure(cell));
      for (double& lead : leads) lead -= sum / static_cast<double>(leads.size());
      for (size_t at = 0; at < leads.size(); ++at) of_rank[row->cells[at].rank].push_back(leads[at]);
    }
    for (auto& [rank, leads] : of_rank) usual_[rank] = median(std::move(leads));
    for (size_t i = 0; i < rows.size(); ++i)
      for (size_t at = 0; at < lead_[i].size(); ++at) lead_[i][at] -= usual(rows.rows[i]->cells[at].rank);
  }

  double at(size_t row, size_t cell) const { return lead_[row][cell]; }
  // The cell that leads in a row.
  size_t first_of(size_t row) const {
    return static_cast<size_t>(std::max_element(lead_[row].begin(), lead_[row].end()) - lead_[row].begin());
  }
  double usual(int rank) const {
    const auto found = usual_.find(rank);
    return found == usual_.end() ? 0 : found->second;
  }

  // Pearson's correlation of two figures over all ranks and steps; 0 where one does not vary.
  double correlation(const Leads& other) const { return together(other).correlation; }
  // How much of these leads the other's reach: the slope of the other's over these. 0 where these do not vary.
  double reached_by(const Leads& other) const { return together(other).slope; }

 private:
  struct Together {
    double correlation = 0, slope = 0;
  };
  Together together(const Leads& other) const;

  std::vector<std::vector<double>> lead_;  // by row, by cell of the row
  std::map<int, double> usual_;
};

// What a step would be shorter by without the lead of the rank that leads, at most what the ranks waited in it on
// average.
double loss_ms(const Leads& own, const Rows& rows, size_t row);
double mean_wait_ms(const StepRow& row);
// What is lost in all of them is no more than this, which costs less to know.
double most_lost_ms(const Rows& rows);
// Share of the steps in which the same rank leads, of the rank that leads most often.
double most_often_first(const Leads& own, const Rows& rows);

}  // namespace stepscope
