/* The version of the program and of its API, which come together: `lastunit --version`, what MCP's serverInfo says, and
 * info.version of src/api/openapi.json, which a test compares. The schema has a version of its own (store/migrate.h).
 */
#ifndef LASTUNIT_VERSION_H
#define LASTUNIT_VERSION_H

#define LASTUNIT_VERSION "1.0.0"

#endif
