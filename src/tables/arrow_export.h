// Hands tables over by the Arrow C data and stream interfaces. Buffers are not copied: an array owns the column it came
// from, each column for itself (a consumer may move one out and let the rest go), blocks of zeros and lists of words
// are shared. What is handed over is freed by its release callback, once, in any thread, whenever the consumer likes:
// after the stream, too. A released struct has release == nullptr; the callbacks then do nothing.
//
// Nothing throws. A stream's calls return 0 or an errno value (EIO: the file; ENOMEM), with one line in
// get_last_error(). One thread at a time per stream.
#pragma once

#include <memory>
#include <vector>

#include "tables/arrow_abi.h"
#include "tables/batch_source.h"

namespace stepscope::tables {

// A schema's metadata are key and value; of a column: `unit` where it has one, and what Field::notes says.
void export_schema(const std::vector<Field>& fields, const Notes& notes, ArrowSchema* out);
void export_batch(const std::vector<Field>& fields, Batch batch, ArrowArray* out);
void export_stream(std::unique_ptr<BatchSource> source, Notes notes, ArrowArrayStream* out);

}  // namespace stepscope::tables
