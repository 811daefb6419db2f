/* Settings of `serve` that are right one by one and wrong together: refused before anything is started, by `dev` too. */
#ifndef CMD_SERVE_SETTINGS_H
#define CMD_SERVE_SETTINGS_H

#include "base/config.h"
#include "store/keyring.h"

/* False with a sentence that names the flags: a secret key where every visitor would see it, an address that is none, a
 * channel whose key is given without what proves that its calls are genuine. */
bool serve_settings_check(const struct config *config, char ret_why[512]) __attribute__((warn_unused_result));
/* Logs what may yet become right: keys that nobody knows (they may be made later) or that are another channel's,
 * secrets of channels that have no key (dev.env holds them for every instance), and agents without a key whom no cap keeps
 * from holding everything. Once, when the keyring was filled. */
void serve_settings_warn(const struct config *config, struct keyring *keyring);

#endif
