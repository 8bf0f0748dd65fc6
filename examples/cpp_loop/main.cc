// Data-parallel training without any framework: linear regression by gradient descent in N processes that average their
// gradients through shared memory. It shows where the marks of stepscope.h go in a loop of your own.
//
//   stepscope run -- ./cpp_loop --ranks 2 --steps 200 --slow-rank 1 --slow-ms 5
//
// Without stepscope the marks do nothing and the output is the same.
#include <pthread.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <random>
#include <vector>

#include "stepscope/stepscope.h"

namespace {

constexpr int kFeatures = 64, kBatch = 256, kMaxRanks = 64;

struct Options {
  int ranks = 2, steps = 100, slow_rank = -1, slow_ms = 0;
};

// What the processes share: a place for each rank's gradient and a barrier.
struct Shared {
  pthread_barrier_t barrier;
  double gradient[kMaxRanks][kFeatures];
};

struct Batch {
  std::vector<double> x = std::vector<double>(kBatch * kFeatures), y = std::vector<double>(kBatch);
};

Batch next_batch(std::mt19937_64& random) {
  Batch batch;
  std::normal_distribution<double> normal;
  for (int i = 0; i < kBatch; ++i) {
    for (int j = 0; j < kFeatures; ++j) {
      const double value = normal(random);
      batch.x[i * kFeatures + j] = value;
      batch.y[i] += value * (j % 7 - 3);  // the weights to be found
    }
  }
  return batch;
}

// Residuals of the batch; returns the mean squared error.
double forward(const Batch& batch, const std::vector<double>& weights, std::vector<double>& residual) {
  double sum = 0;
  for (int i = 0; i < kBatch; ++i) {
    double y = 0;
    for (int j = 0; j < kFeatures; ++j) y += batch.x[i * kFeatures + j] * weights[j];
    residual[i] = y - batch.y[i];
    sum += residual[i] * residual[i];
  }
  return sum / kBatch;
}

void backward(const Batch& batch, const std::vector<double>& residual, double* gradient) {
  std::memset(gradient, 0, kFeatures * sizeof *gradient);
  for (int i = 0; i < kBatch; ++i)
    for (int j = 0; j < kFeatures; ++j) gradient[j] += 2 * residual[i] * batch.x[i * kFeatures + j] / kBatch;
}

void work_for(int ms) {
  timespec begin, now;
  clock_gettime(CLOCK_MONOTONIC, &begin);
  do clock_gettime(CLOCK_MONOTONIC, &now);
  while ((now.tv_sec - begin.tv_sec) * 1000 + (now.tv_nsec - begin.tv_nsec) / 1'000'000 < ms);
}

double train(int rank, const Options& options, Shared& shared) {
  std::mt19937_64 random(static_cast<uint64_t>(rank) + 1);
  std::vector<double> weights(kFeatures), residual(kBatch);
  double loss = 0;
  for (int step = 0; step < options.steps; ++step) {
    stepscope_begin(STEPSCOPE_FETCH, 0);
    const Batch batch = next_batch(random);
    stepscope_end(STEPSCOPE_FETCH, 0);

    stepscope_begin(STEPSCOPE_FORWARD, 0);
    loss = forward(batch, weights, residual);
    stepscope_end(STEPSCOPE_FORWARD, 0);

    stepscope_begin(STEPSCOPE_BACKWARD, 0);
    backward(batch, residual, shared.gradient[rank]);
    if (rank == options.slow_rank) work_for(options.slow_ms);
    stepscope_backward_own_end();  // from here on this rank waits for the others
    pthread_barrier_wait(&shared.barrier);
    std::vector<double> mean(kFeatures);
    for (int r = 0; r < options.ranks; ++r)
      for (int j = 0; j < kFeatures; ++j) mean[j] += shared.gradient[r][j] / options.ranks;
    pthread_barrier_wait(&shared.barrier);  // nobody may write the next gradient before all have read this one
    stepscope_end(STEPSCOPE_BACKWARD, 0);

    stepscope_begin(STEPSCOPE_OPTIMIZER, 0);
    for (int j = 0; j < kFeatures; ++j) weights[j] -= 0.1 * mean[j];
    stepscope_end(STEPSCOPE_OPTIMIZER, 0);

    stepscope_log("loss", loss);
    stepscope_step();
  }
  return loss;
}

Options parse(int argc, char** argv) {
  Options options;
  for (int i = 1; i + 1 < argc; i += 2) {
    const int value = std::atoi(argv[i + 1]);
    if (!std::strcmp(argv[i], "--ranks")) options.ranks = value;
    else if (!std::strcmp(argv[i], "--steps")) options.steps = value;
    else if (!std::strcmp(argv[i], "--slow-rank")) options.slow_rank = value;
    else if (!std::strcmp(argv[i], "--slow-ms")) options.slow_ms = value;
  }
  return options;
}

}  // namespace

int main(int argc, char** argv) {
  const Options options = parse(argc, argv);
  if (options.ranks < 1 || options.ranks > kMaxRanks) return 2;
  auto* shared = static_cast<Shared*>(
      mmap(nullptr, sizeof(Shared), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0));
  if (shared == MAP_FAILED) return 1;
  pthread_barrierattr_t attributes;
  pthread_barrierattr_init(&attributes);
  pthread_barrierattr_setpshared(&attributes, PTHREAD_PROCESS_SHARED);
  pthread_barrier_init(&shared->barrier, &attributes, static_cast<unsigned>(options.ranks));

  for (int rank = 0; rank < options.ranks; ++rank) {
    if (fork() != 0) continue;
    const stepscope_identity identity = {rank, rank, options.ranks, 0};
    stepscope_open(&identity);
    const double loss = train(rank, options, *shared);
    stepscope_close();
    std::printf("rank %d: loss %.6g after %d steps\n", rank, loss, options.steps);
    std::fflush(stdout);
    _exit(std::isfinite(loss) ? 0 : 1);
  }
  int failed = 0;
  for (int status; wait(&status) > 0;) failed += status != 0;
  return failed != 0;
}
