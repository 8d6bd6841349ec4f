#ifndef ENGINE_VERSION_H
#define ENGINE_VERSION_H

#define SAGA_VERSION "0.1.0"

#endif
