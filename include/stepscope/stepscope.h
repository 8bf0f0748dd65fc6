/* stepscope: the marks of the recorder as a C ABI, for libtorch loops and other runtimes.
 *
 * A mark writes one 64-byte record into the process's black box (shared memory): no lock, no allocation, no system
 * call but the clock, no failure that reaches the caller. Any thread may call. When the recorder is off (no
 * stepscope agent, no shared memory, forked child) every call returns at once and does nothing.
 *
 *   stepscope_open(NULL);                       // once; reads RANK, WORLD_SIZE, LOCAL_RANK, STEPSCOPE_SHM
 *   for (...) {
 *     stepscope_begin(STEPSCOPE_FETCH, 0);      batch = next();   stepscope_end(STEPSCOPE_FETCH, 0);
 *     stepscope_begin(STEPSCOPE_FORWARD, 0);    ...               stepscope_end(STEPSCOPE_FORWARD, 0);
 *     stepscope_begin(STEPSCOPE_BACKWARD, 0);   ...               stepscope_end(STEPSCOPE_BACKWARD, 0);
 *     stepscope_begin(STEPSCOPE_OPTIMIZER, 0);  ...               stepscope_end(STEPSCOPE_OPTIMIZER, 0);
 *     stepscope_step();                         // this step ends here
 *   }
 *   stepscope_close();
 */
#ifndef STEPSCOPE_STEPSCOPE_H_
#define STEPSCOPE_STEPSCOPE_H_

#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#define STEPSCOPE_API __attribute__((visibility("default")))

/* Phases that a program marks itself. The numbers are those of the file format (src/blackbox/event_kind.h). */
enum stepscope_phase {
  STEPSCOPE_OPTIMIZER = 4,
  STEPSCOPE_BACKWARD = 6,
  STEPSCOPE_FORWARD = 8,
  STEPSCOPE_FETCH = 9,
  STEPSCOPE_WAIT = 13,
  STEPSCOPE_SAVE = 15,
  STEPSCOPE_H2D = 17
};

/* Who this process is. Fields < 0 are taken from the environment (RANK, LOCAL_RANK, WORLD_SIZE, GROUP_RANK). */
struct stepscope_identity {
  int32_t rank, local_rank, world_size, node_rank;
};

/* Opens the black box in the folder named by STEPSCOPE_SHM. Returns 0, or -1 with the reason in stepscope_reason().
 * Opening twice is allowed and does nothing. Not safe to call from a signal handler. */
STEPSCOPE_API int stepscope_open(const struct stepscope_identity* identity);

/* Marks an orderly end. Later marks do nothing. */
STEPSCOPE_API void stepscope_close(void);

/* 1 when marks are recorded, else 0. */
STEPSCOPE_API int stepscope_active(void);

/* Why the recorder is off, or "" when it is on. Static storage. */
STEPSCOPE_API const char* stepscope_reason(void);

/* Begin and end of a phase on the calling thread. `id` tells apart several objects of one phase (two optimizers). */
STEPSCOPE_API void stepscope_begin(int phase, uint64_t id);
STEPSCOPE_API void stepscope_end(int phase, uint64_t id);

/* Ends the current step. */
STEPSCOPE_API void stepscope_step(void);

/* Own backward work has ended; what follows until the end of the phase is waiting for other ranks. */
STEPSCOPE_API void stepscope_backward_own_end(void);

/* Begin and end of a phase of your own, by name (at most 63 bytes are kept). Nesting is allowed. */
STEPSCOPE_API void stepscope_phase_begin(const char* name);
STEPSCOPE_API void stepscope_phase_end(const char* name);

/* Records a value (loss, tokens, learning rate) for the current step. */
STEPSCOPE_API void stepscope_log(const char* name, double value);

#ifdef __cplusplus
}
#endif
#endif /* STEPSCOPE_STEPSCOPE_H_ */
