// State of the fake libnvidia-ml (fake_nvml.cc), reached by dlsym("fake_nvml_state") from tests.
#pragma once

namespace stepscope::testing {

struct FakeNvmlState {
  int init_result = 0;
  unsigned init_flags = 99;          // as given by the caller
  int open = 0;                      // nvmlInit less nvmlShutdown
  int live_gpm_samples = 0, live_event_sets = 0;
  unsigned gpus = 2;
  int handles_fetched = 0;
  int failing_result = 0;            // != 0: every device call returns it
  unsigned mig_gpu = 99;             // this GPU is divided into two instances
  unsigned process_count = 3;
  unsigned long long xid_queue[8] = {};  // code of GPU 1, consumed from the front; 0 = none
  unsigned xid_timeout_ms = 99;      // as given by the caller
  double gpm_sm = 80, gpm_tensor = 40, gpm_dram = 20;  // per cent
  unsigned gpm_supported = 1;
  bool link_totals = true;           // false: NVLink errors are told link by link, as newer cards do
  unsigned long long link_replays[18] = {};
};

}  // namespace stepscope::testing
