// A whole run file from anywhere, opened in memory; every table of it as a consumer of the Arrow stream reads it, and
// as CSV. Inputs as those of run_file_fuzz.cc.
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <string>

#include "../../tests/support/changes.h"
#include "../../tests/support/run_image.h"
#include "tables/arrow_export.h"
#include "tables/csv.h"
#include "tables/run_tables.h"

namespace {

using namespace stepscope;
using namespace stepscope::tables;

constexpr int kBatches = 4;

std::string changed(bool small, const uint8_t* data, size_t size) {
  static const std::string large_image = examples::good_image(260), small_image = examples::good_image(16);
  return examples::changed(small ? small_image : large_image, data, size);
}

void check(const std::string& message) {
  if (message.empty() || message.find('\n') != std::string::npos) std::abort();
}

void read_stream(OpenTable table) {
  ArrowArrayStream stream{};
  export_stream(std::move(table.source), std::move(table.notes), &stream);
  ArrowSchema schema{};
  if (stream.get_schema(&stream, &schema) != 0) std::abort();
  for (int i = 0; i < kBatches; ++i) {
    ArrowArray batch{};
    if (stream.get_next(&stream, &batch) != 0) {
      check(stream.get_last_error(&stream));
      break;
    }
    if (!batch.release) break;
    for (int64_t c = 0; c < batch.n_children; ++c)
      if (batch.children[c]->length != batch.length) std::abort();
    batch.release(&batch);
  }
  stream.release(&stream);
  schema.release(&schema);
}

void read_csv(OpenTable table) {
  for (int i = 0; i < kBatches; ++i) {
    const auto batch = table.source->next();
    if (!batch || !*batch) break;
    const std::string rows = csv_rows(table.source->fields(), **batch);
    if (rows.empty() || rows.back() != '\n') std::abort();
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  if (size < 2) return 0;
  const std::string image = data[0] & 1 ? changed(data[0] & 2, data + 2, size - 2)
                                        : std::string(reinterpret_cast<const char*>(data + 2), size - 2);
  const TableInfo& info = run_tables()[data[1] / 2 % run_tables().size()];
  auto reader = RunReader::from_bytes(image, "fuzz");
  if (!reader) return check(reader.error().message), 0;
  auto table = open_table(std::move(*reader), info.name, std::make_shared<Damage>());
  if (!table) return check(table.error().message), 0;
  data[1] & 1 ? read_csv(std::move(*table)) : read_stream(std::move(*table));
  return 0;
}
