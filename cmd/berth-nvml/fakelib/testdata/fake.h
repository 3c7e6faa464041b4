/*
 * A stand-in for the driver's libnvidia-ml.so.1, for tests of the shipped
 * program on machines without a GPU. It knows only the calls that berth-nvml
 * and the CDI generator make, and answers from a small text file:
 *
 *   driver 570.124.06 12080          version, CUDA as 1000*major+10*minor
 *   gpu uuid=GPU-0 name=NVIDIA_H200 bus=00000000:1A:00.0 minor=0 memory=143771
 *       (one line; more keys are below in struct gpu; memory in MiB)
 *   mig gpu=0 uuid=MIG-0 gi=1 profile=19 start=0
 *   needs /dev/nvidiactl             every call fails where this cannot be opened
 *   link 0 1 18                      18 NVLinks between GPU 0 and GPU 1
 *   event gpu=0 xid=79 [gi=1 ci=0]   delivered once, in the file's order
 *   hang nvmlDeviceGetName           that call never returns
 *   crash nvmlDeviceGetName          that call kills the process
 *   fail nvmlDeviceGetName 15        that call returns this code
 *
 * A process has the library of the driver that the file named first. Under a
 * driver of another version each call gives NVML_ERROR_LIB_RM_VERSION_MISMATCH,
 * until a new process loads the library anew.
 *
 * The file is named by NVML_STATE and read again whenever it changes. What
 * the caller changes (MIG, limits) lasts until then and is appended to the
 * file named by NVML_CALLS, so that a test can see it. With NVML_STILL set it is
 * read once, so that time measured is the caller's.
 *
 * A driver without a function is compiled with -DnvmlX=absent_nvmlX.
 * Layouts come from the nvml.h of github.com/NVIDIA/go-nvml.
 */
#ifndef FAKE_H
#define FAKE_H
#define NVML_NO_UNVERSIONED_FUNC_DEFS
#pragma GCC diagnostic ignored "-Wdeprecated-declarations"
#include "nvml.h"
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

enum { GPUS = 16, INSTANCES = 7, EVENTS = 64, FAULTS = 32 };
enum { KIND_GPU = 1, KIND_MIG };

struct gpu;

/* instance is a GPU instance and the one compute instance that fills it. */
struct instance {
	int kind;
	int used, has_ci;
	unsigned id, profile, start;
	char uuid[80];
	struct gpu *parent;
};

struct gpu {
	int kind;
	unsigned index;
	char uuid[80], name[96], bus[32], cluster[33];
	int minor, memory, used, reserved, major, cc;
	int mig, pending, reset, lost, display, gpm, temp, memtemp, power, limit, util, memutil;
	int sm, mem, energy, replays, enc, dec, corrected, uncorrected, remapfail, remappending, reasons;
	int nvlink, clique, pid, pidmem, mode, tensor, dram, tx, rx, fan, ecc, heat, smactive, pciekb;
	struct instance gi[INSTANCES];
};

/* profile is a row of a GPU's table of MIG profiles. */
struct profile {
	unsigned which, id, slices, max, sm, copy, dec, jpeg, ofa, memory, size, starts;
	const char *name;
};

/* S is what the file says, as it was read last. */
extern struct state {
	char driver[80], needs[64];
	int cuda, gpus, events, faults;
	struct gpu gpu[GPUS];
	int links[GPUS][GPUS];
	struct { int gpu, xid, gi, ci; } event[EVENTS];
	struct { char what[16], call[64]; int code; } fault[FAULTS];
} S;

/* profile_of finds a row by the profile's ID, profile_of_shape by the number of
 * its shape (NVML_GPU_INSTANCE_PROFILE_...); NULL is none. */
const struct profile *profile_of(unsigned id);
const struct profile *profile_of_shape(unsigned which);

/* note appends a line to the file of calls. */
void note(const char *format, ...);

/* say copies an answer to the caller's buffer. */
nvmlReturn_t say(char *out, unsigned size, const char *text);

/* enter reads the file again if it has changed, and commits the fault that it
 * names for this call. */
nvmlReturn_t enter(const char *call);

#define ENTER \
	do { \
		nvmlReturn_t code = enter(__func__); \
		if (code) return code; \
	} while (0)
/* DEVICE enters, and names the GPU and, for a MIG device's handle, that. */
#define DEVICE(d) \
	ENTER; \
	struct gpu *g = (struct gpu *)(d).handle; \
	struct instance *m = NULL; \
	if (!g) return NVML_ERROR_INVALID_ARGUMENT; \
	if (g->kind == KIND_MIG) { m = (struct instance *)g; g = m->parent; } \
	if (g->kind != KIND_GPU || (m && !m->used)) return NVML_ERROR_INVALID_ARGUMENT; \
	if (g->lost) return NVML_ERROR_GPU_IS_LOST; \
	(void)m
#define WHOLE_ONLY if (m) return NVML_ERROR_NOT_SUPPORTED
#endif
