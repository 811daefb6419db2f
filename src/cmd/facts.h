/* How `status` and `why` tell facts: one a line, label and value aligned; findings below them; a verdict at the end.
 * Thread: any; no state but rings per thread.
 */
#ifndef CMD_FACTS_H
#define CMD_FACTS_H

#include <stdio.h>

#include "base/json.h"
#include "inventory/weakness.h"

/* label "": a further line of the fact above. */
void facts_line(FILE *out, const char *label, const char *format, ...) __attribute__((format(printf, 3, 4)));
/* "850 ms", "12.3 s", "5 min 20 s", "3 h 10 min", "4 d 2 h". In a ring of eight. */
const char *facts_duration(int64_t ms);
/* "+0.8 ms". In the same ring. */
const char *facts_offset(int64_t us);
/* Findings, those that weaken promises first. */
void facts_findings(FILE *out, const struct weaknesses *findings);
/* "P2 P4": every promise that a finding weakens, once, in order. "" : none. */
void facts_promises(const struct weaknesses *findings, char out[32]);
/* "findings": [{"name", "promises": ["P4"], "sentence"}] as a member. */
void facts_findings_json(struct json_writer *json, const struct weaknesses *findings);

#endif
