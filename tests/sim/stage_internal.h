/* What the stage (stage.c: servers, instances, the whole) and its faults (fault.c) share. */
#ifndef SIM_STAGE_INTERNAL_H
#define SIM_STAGE_INTERNAL_H

#include "sim/stage.h"

#define MS INT64_C(1000000)

/* Ends the program with a sentence. */
_Noreturn void stage_give_up(const char *format, ...) __attribute__((format(printf, 1, 2)));
/* Asked to end: now, and nothing is left behind. */
void stage_give_way(void);
/* Something was out of order from then until now. */
void stage_note_outage(struct stage *stage, enum history_outage_kind kind, int instance, int64_t from_ns);
/* Runs the binary; its stderr is appended to this file, its stdout too unless it gets a descriptor. */
pid_t stage_spawn(const struct stage *stage, const char *const *arguments, const char *log, int output);
void stage_resume(struct stage *stage, struct stage_instance *x);
void stage_kill(struct stage *stage, struct stage_instance *x);
/* Reaps, and starts again what died. */
void stage_instances_turn(struct stage *stage);
void stage_remove_dump(struct stage *stage);

#endif
