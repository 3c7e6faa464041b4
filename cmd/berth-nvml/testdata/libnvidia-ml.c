/*
 * A stand-in for the driver's libnvidia-ml.so.1, for tests of the shipped
 * program on machines without a GPU. It knows only the calls that berth-nvml
 * and the CDI generator make, and answers from a small text file:
 *
 *   driver 570.124.06 12080          version, CUDA as 1000*major+10*minor
 *   gpu uuid=GPU-0 name=NVIDIA_H200 bus=00000000:1A:00.0 minor=0 memory=143771
 *       (one line; more keys are below in struct gpu; memory in MiB)
 *   mig gpu=0 uuid=MIG-0 gi=1 profile=19 start=0
 *   link 0 1 18                      18 NVLinks between GPU 0 and GPU 1
 *   event gpu=0 xid=79 [gi=1 ci=0]   delivered once, in the file's order
 *   hang nvmlDeviceGetName           that call never returns
 *   crash nvmlDeviceGetName          that call kills the process
 *   fail nvmlDeviceGetName 15        that call returns this code
 *
 * The file is named by NVML_STATE and read again whenever it changes. What
 * the caller changes (MIG, limits) lasts until then and is appended to the
 * file named by NVML_CALLS, so that a test can see it.
 *
 * A driver without a function is compiled with -DnvmlX=absent_nvmlX.
 * Layouts come from the nvml.h of github.com/NVIDIA/go-nvml.
 */
#define NVML_NO_UNVERSIONED_FUNC_DEFS
#pragma GCC diagnostic ignored "-Wdeprecated-declarations"
#include "nvml.h"
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
	int nvlink, clique, pid, pidmem, mode, tensor, dram, tx, rx;
	struct instance gi[INSTANCES];
};

/* The table of an H200 of 141 GB. */
static const struct profile {
	unsigned which, id, slices, max, sm, copy, dec, jpeg, ofa, memory, size, starts;
	const char *name;
} profiles[] = {
	{NVML_GPU_INSTANCE_PROFILE_1_SLICE, 19, 1, 7, 16, 1, 1, 1, 0, 16384, 1, 0x7f, "MIG 1g.18gb"},
	{NVML_GPU_INSTANCE_PROFILE_1_SLICE_REV1, 20, 1, 1, 16, 1, 1, 1, 1, 16384, 1, 0x7f, "MIG 1g.18gb+me"},
	{NVML_GPU_INSTANCE_PROFILE_1_SLICE_REV2, 15, 1, 4, 26, 1, 1, 1, 0, 33024, 2, 0x55, "MIG 1g.35gb"},
	{NVML_GPU_INSTANCE_PROFILE_2_SLICE, 14, 2, 3, 32, 2, 2, 2, 0, 33024, 2, 0x15, "MIG 2g.35gb"},
	{NVML_GPU_INSTANCE_PROFILE_3_SLICE, 9, 3, 2, 60, 3, 3, 3, 0, 71168, 4, 0x11, "MIG 3g.71gb"},
	{NVML_GPU_INSTANCE_PROFILE_4_SLICE, 5, 4, 1, 64, 4, 4, 4, 0, 71168, 4, 0x01, "MIG 4g.71gb"},
	{NVML_GPU_INSTANCE_PROFILE_7_SLICE, 0, 7, 1, 132, 8, 7, 7, 1, 143360, 8, 0x01, "MIG 7g.141gb"},
};
enum { PROFILES = sizeof profiles / sizeof *profiles };

static struct {
	char driver[80];
	int cuda, gpus, events, faults;
	struct gpu gpu[GPUS];
	int links[GPUS][GPUS];
	struct { int gpu, xid, gi, ci; } event[EVENTS];
	struct { char what[16], call[64]; int code; } fault[FAULTS];
} S;
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static struct stat last;
static int delivered, created;

/* note appends a line to the file of calls. */
static void note(const char *format, ...) {
	const char *path = getenv("NVML_CALLS");
	FILE *f = path ? fopen(path, "a") : NULL;
	if (!f) return;
	va_list args;
	va_start(args, format);
	vfprintf(f, format, args);
	va_end(args);
	fclose(f);
}

/* number gives the integer after " key=" in line, or otherwise. */
static int number(const char *line, const char *key, int otherwise) {
	char want[40];
	snprintf(want, sizeof want, " %s=", key);
	const char *at = strstr(line, want);
	return at ? atoi(at + strlen(want)) : otherwise;
}

/* text copies the word after " key=" with blanks for underscores. */
static void text(const char *line, const char *key, char *out, size_t size) {
	char want[40];
	snprintf(want, sizeof want, " %s=", key);
	const char *at = strstr(line, want);
	size_t n = 0;
	if (at)
		for (at += strlen(want); *at && *at != ' ' && *at != '\n' && n + 1 < size; at++) out[n++] = *at == '_' ? ' ' : *at;
	out[n] = 0;
}

static void read_gpu(const char *l) {
	struct gpu *g = &S.gpu[S.gpus];
	g->kind = KIND_GPU;
	g->index = S.gpus++;
	text(l, "uuid", g->uuid, sizeof g->uuid);
	text(l, "name", g->name, sizeof g->name);
	text(l, "bus", g->bus, sizeof g->bus);
	text(l, "cluster", g->cluster, sizeof g->cluster);
#define KEY(k, otherwise) g->k = number(l, #k, otherwise)
	KEY(minor, (int)g->index); KEY(memory, 143771); KEY(used, 0); KEY(reserved, 600); KEY(major, 9); KEY(cc, 0);
	KEY(mig, 0); KEY(pending, g->mig); KEY(reset, 0); KEY(lost, 0); KEY(display, 0); KEY(gpm, 1);
	KEY(temp, 30); KEY(memtemp, 40); KEY(power, 75000); KEY(limit, 700000); KEY(util, 0); KEY(memutil, 0);
	KEY(sm, 1980); KEY(mem, 3201); KEY(energy, 1000); KEY(replays, 0); KEY(enc, 0); KEY(dec, 0);
	KEY(corrected, 0); KEY(uncorrected, 0); KEY(remapfail, 0); KEY(remappending, 0); KEY(reasons, 0);
	KEY(nvlink, 0); KEY(clique, 0); KEY(pid, 0); KEY(pidmem, 0); KEY(mode, 0);
	KEY(tensor, 0); KEY(dram, 0); KEY(tx, 0); KEY(rx, 0);
#undef KEY
}

static void read_mig(const char *l) {
	struct gpu *g = &S.gpu[number(l, "gpu", 0)];
	for (int i = 0; i < INSTANCES; i++) {
		struct instance *m = &g->gi[i];
		if (m->used) continue;
		*m = (struct instance){KIND_MIG, 1, 1, number(l, "gi", 1), number(l, "profile", 19), number(l, "start", 0), "", g};
		text(l, "uuid", m->uuid, sizeof m->uuid);
		return;
	}
}

static void read_line(const char *l) {
	char word[16] = "", call[64] = "";
	int a = 0, b = 0, n = 0;
	sscanf(l, "%15s %63s %d", word, call, &n);
	if (!strcmp(word, "driver")) {
		snprintf(S.driver, sizeof S.driver, "%s", call);
		S.cuda = n;
	} else if (!strcmp(word, "gpu") && S.gpus < GPUS) {
		read_gpu(l);
	} else if (!strcmp(word, "mig")) {
		read_mig(l);
	} else if (!strcmp(word, "link") && sscanf(l, "link %d %d %d", &a, &b, &n) == 3) {
		S.links[a][b] = S.links[b][a] = n;
	} else if (!strcmp(word, "event") && S.events < EVENTS) {
		S.event[S.events].gpu = number(l, "gpu", -1);
		S.event[S.events].xid = number(l, "xid", 0);
		S.event[S.events].gi = number(l, "gi", -1);
		S.event[S.events++].ci = number(l, "ci", -1);
	} else if (S.faults < FAULTS && (!strcmp(word, "hang") || !strcmp(word, "crash") || !strcmp(word, "fail"))) {
		snprintf(S.fault[S.faults].what, sizeof S.fault[0].what, "%s", word);
		snprintf(S.fault[S.faults].call, sizeof S.fault[0].call, "%s", call);
		S.fault[S.faults++].code = n;
	}
}

/* enter reads the file again if it has changed, and commits the fault that it
 * names for this call. */
static nvmlReturn_t enter(const char *call) {
	struct stat now;
	const char *path = getenv("NVML_STATE");
	if (!path || stat(path, &now)) return NVML_ERROR_DRIVER_NOT_LOADED;
	pthread_mutex_lock(&lock);
	if (now.st_ino != last.st_ino || now.st_mtim.tv_nsec != last.st_mtim.tv_nsec || now.st_mtim.tv_sec != last.st_mtim.tv_sec) {
		char line[1024];
		FILE *f = fopen(path, "r");
		memset(&S, 0, sizeof S);
		while (f && fgets(line, sizeof line, f)) read_line(line);
		if (f) fclose(f);
		last = now;
	}
	char what[16] = "";
	int code = 0;
	for (int i = 0; i < S.faults; i++)
		if (!strcmp(S.fault[i].call, call)) {
			memcpy(what, S.fault[i].what, sizeof what);
			code = S.fault[i].code;
		}
	pthread_mutex_unlock(&lock);
	if (!strcmp(what, "crash")) abort();
	while (!strcmp(what, "hang")) pause();
	return code;
}

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

static nvmlReturn_t say(char *out, unsigned size, const char *text) {
	if (strlen(text) + 1 > size) return NVML_ERROR_INSUFFICIENT_SIZE;
	strcpy(out, text);
	return NVML_SUCCESS;
}

static const struct profile *by_id(unsigned id) {
	for (int i = 0; i < PROFILES; i++)
		if (profiles[i].id == id) return &profiles[i];
	return NULL;
}

/* The library and the system. */

nvmlReturn_t nvmlInit_v2(void) { ENTER; return NVML_SUCCESS; }
nvmlReturn_t nvmlInitWithFlags(unsigned flags) { (void)flags; ENTER; return NVML_SUCCESS; }
nvmlReturn_t nvmlShutdown(void) { return NVML_SUCCESS; }

const char *nvmlErrorString(nvmlReturn_t code) {
	switch (code) {
	case NVML_SUCCESS: return "Success";
	case NVML_ERROR_NOT_SUPPORTED: return "Not Supported";
	case NVML_ERROR_DRIVER_NOT_LOADED: return "Driver Not Loaded";
	case NVML_ERROR_GPU_IS_LOST: return "GPU is lost";
	case NVML_ERROR_LIB_RM_VERSION_MISMATCH: return "Driver/library version mismatch";
	case NVML_ERROR_IN_USE: return "In use by another client";
	default: return "Unknown Error";
	}
}

nvmlReturn_t nvmlSystemGetDriverVersion(char *out, unsigned size) { ENTER; return say(out, size, S.driver); }
nvmlReturn_t nvmlSystemGetNVMLVersion(char *out, unsigned size) { ENTER; return say(out, size, S.driver); }
nvmlReturn_t nvmlSystemGetCudaDriverVersion_v2(int *out) { ENTER; *out = S.cuda; return NVML_SUCCESS; }
nvmlReturn_t nvmlSystemGetCudaDriverVersion(int *out) { ENTER; *out = S.cuda; return NVML_SUCCESS; }

/* What a GPU is. */

nvmlReturn_t nvmlDeviceGetCount_v2(unsigned *n) { ENTER; *n = S.gpus; return NVML_SUCCESS; }

nvmlReturn_t nvmlDeviceGetHandleByIndex_v2(unsigned i, nvmlDevice_t *d) {
	ENTER;
	if (i >= (unsigned)S.gpus) return NVML_ERROR_INVALID_ARGUMENT;
	if (S.gpu[i].lost) return NVML_ERROR_GPU_IS_LOST;
	d->handle = (void *)&S.gpu[i];
	return NVML_SUCCESS;
}

nvmlReturn_t nvmlDeviceGetHandleByUUID(const char *uuid, nvmlDevice_t *d) {
	ENTER;
	for (int i = 0; i < S.gpus; i++) {
		struct gpu *g = &S.gpu[i];
		if (!strcmp(g->uuid, uuid)) {
			d->handle = (void *)g;
			return g->lost ? NVML_ERROR_GPU_IS_LOST : NVML_SUCCESS;
		}
		for (int k = 0; k < INSTANCES; k++)
			if (g->gi[k].used && !strcmp(g->gi[k].uuid, uuid)) {
				d->handle = (void *)&g->gi[k];
				return NVML_SUCCESS;
			}
	}
	return NVML_ERROR_NOT_FOUND;
}

nvmlReturn_t nvmlDeviceGetUUID(nvmlDevice_t d, char *out, unsigned size) { DEVICE(d); return say(out, size, m ? m->uuid : g->uuid); }
nvmlReturn_t nvmlDeviceGetName(nvmlDevice_t d, char *out, unsigned size) {
	DEVICE(d);
	if (!m) return say(out, size, g->name);
	char name[200];
	const struct profile *p = by_id(m->profile);
	snprintf(name, sizeof name, "%s %s", g->name, p ? p->name : "MIG");
	return say(out, size, name);
}
nvmlReturn_t nvmlDeviceGetMinorNumber(nvmlDevice_t d, unsigned *out) { DEVICE(d); WHOLE_ONLY; *out = g->minor; return NVML_SUCCESS; }
nvmlReturn_t nvmlDeviceGetIndex(nvmlDevice_t d, unsigned *out) { DEVICE(d); *out = m ? (unsigned)(m - g->gi) : g->index; return NVML_SUCCESS; }
nvmlReturn_t nvmlDeviceGetCudaComputeCapability(nvmlDevice_t d, int *major, int *minor) { DEVICE(d); *major = g->major; *minor = g->cc; return NVML_SUCCESS; }

nvmlReturn_t nvmlDeviceGetPciInfo_v3(nvmlDevice_t d, nvmlPciInfo_t *p) {
	DEVICE(d);
	memset(p, 0, sizeof *p);
	sscanf(g->bus, "%x:%x:%x", &p->domain, &p->bus, &p->device);
	snprintf(p->busId, sizeof p->busId, "%s", g->bus);
	snprintf(p->busIdLegacy, sizeof p->busIdLegacy, "%04x:%02x:%02x.0", p->domain, p->bus, p->device);
	p->pciDeviceId = 0x233510de;
	return NVML_SUCCESS;
}

nvmlReturn_t nvmlDeviceGetBrand(nvmlDevice_t d, nvmlBrandType_t *out) { DEVICE(d); *out = NVML_BRAND_NVIDIA; return NVML_SUCCESS; }
nvmlReturn_t nvmlDeviceGetArchitecture(nvmlDevice_t d, nvmlDeviceArchitecture_t *out) { DEVICE(d); *out = NVML_DEVICE_ARCH_HOPPER; return NVML_SUCCESS; }
nvmlReturn_t nvmlDeviceGetNumGpuCores(nvmlDevice_t d, unsigned *out) { DEVICE(d); *out = 16896; return NVML_SUCCESS; }

nvmlReturn_t nvmlDeviceGetMemoryInfo_v2(nvmlDevice_t d, nvmlMemory_v2_t *out) {
	DEVICE(d);
	const struct profile *p = m ? by_id(m->profile) : NULL;
	out->total = (unsigned long long)(p ? (int)p->memory : g->memory) << 20;
	out->reserved = m ? 0 : (unsigned long long)g->reserved << 20;
	out->used = (unsigned long long)(m ? 16 : g->used) << 20;
	out->free = out->total - out->reserved - out->used;
	return NVML_SUCCESS;
}
nvmlReturn_t nvmlDeviceGetMemoryInfo(nvmlDevice_t d, nvmlMemory_t *out) {
	DEVICE(d);
	const struct profile *p = m ? by_id(m->profile) : NULL;
	out->total = (unsigned long long)(p ? (int)p->memory : g->memory) << 20;
	out->used = (unsigned long long)(m ? 16 : g->used + g->reserved) << 20;
	out->free = out->total - out->used;
	return NVML_SUCCESS;
}

nvmlReturn_t nvmlDeviceGetNvLinkState(nvmlDevice_t d, unsigned link, nvmlEnableState_t *out) {
	DEVICE(d);
	unsigned n = 0;
	for (int i = 0; i < S.gpus; i++) n += S.links[g->index][i];
	if (link >= n) return n ? NVML_ERROR_INVALID_ARGUMENT : NVML_ERROR_NOT_SUPPORTED;
	*out = NVML_FEATURE_ENABLED;
	return NVML_SUCCESS;
}
nvmlReturn_t nvmlDeviceGetNvLinkRemotePciInfo_v2(nvmlDevice_t d, unsigned link, nvmlPciInfo_t *out) {
	DEVICE(d);
	memset(out, 0, sizeof *out);
	for (int i = 0; i < S.gpus; i++) {
		if (link < (unsigned)S.links[g->index][i]) {
			snprintf(out->busId, sizeof out->busId, "%s", S.gpu[i].bus);
			return NVML_SUCCESS;
		}
		link -= S.links[g->index][i];
	}
	return NVML_ERROR_INVALID_ARGUMENT;
}
nvmlReturn_t nvmlDeviceGetNvLinkRemoteDeviceType(nvmlDevice_t d, unsigned link, nvmlIntNvLinkDeviceType_t *out) {
	DEVICE(d);
	(void)link;
	*out = NVML_NVLINK_DEVICE_TYPE_GPU;
	return NVML_SUCCESS;
}
nvmlReturn_t nvmlDeviceGetGpuFabricInfoV(nvmlDevice_t d, nvmlGpuFabricInfoV_t *out) {
	DEVICE(d);
	out->state = g->cluster[0] ? NVML_GPU_FABRIC_STATE_COMPLETED : NVML_GPU_FABRIC_STATE_NOT_SUPPORTED;
	out->status = NVML_SUCCESS;
	out->cliqueId = g->clique;
	for (int i = 0; i < NVML_GPU_FABRIC_UUID_LEN && g->cluster[2 * i]; i++) {
		unsigned byte = 0;
		sscanf(g->cluster + 2 * i, "%2x", &byte);
		out->clusterUuid[i] = byte;
	}
	return NVML_SUCCESS;
}

/* What it shows. */

#define READING(call, field) \
	nvmlReturn_t call(nvmlDevice_t d, unsigned *out) { DEVICE(d); WHOLE_ONLY; *out = g->field; return NVML_SUCCESS; }
READING(nvmlDeviceGetPowerUsage, power)
READING(nvmlDeviceGetEnforcedPowerLimit, limit)
READING(nvmlDeviceGetPcieReplayCounter, replays)
nvmlReturn_t nvmlDeviceGetTemperature(nvmlDevice_t d, nvmlTemperatureSensors_t sensor, unsigned *out) { DEVICE(d); (void)sensor; *out = g->temp; return NVML_SUCCESS; }
nvmlReturn_t nvmlDeviceGetClockInfo(nvmlDevice_t d, nvmlClockType_t type, unsigned *out) { DEVICE(d); *out = type == NVML_CLOCK_MEM ? g->mem : g->sm; return NVML_SUCCESS; }
nvmlReturn_t nvmlDeviceGetTotalEnergyConsumption(nvmlDevice_t d, unsigned long long *out) { DEVICE(d); WHOLE_ONLY; *out = g->energy; return NVML_SUCCESS; }
nvmlReturn_t nvmlDeviceGetCurrentClocksEventReasons(nvmlDevice_t d, unsigned long long *out) { DEVICE(d); WHOLE_ONLY; *out = g->reasons; return NVML_SUCCESS; }
nvmlReturn_t nvmlDeviceGetCurrentClocksThrottleReasons(nvmlDevice_t d, unsigned long long *out) { DEVICE(d); WHOLE_ONLY; *out = g->reasons; return NVML_SUCCESS; }
nvmlReturn_t nvmlDeviceGetUtilizationRates(nvmlDevice_t d, nvmlUtilization_t *out) {
	DEVICE(d);
	if (m || g->mig) return NVML_ERROR_NOT_SUPPORTED;
	out->gpu = g->util;
	out->memory = g->memutil;
	return NVML_SUCCESS;
}
nvmlReturn_t nvmlDeviceGetEncoderUtilization(nvmlDevice_t d, unsigned *out, unsigned *period) { DEVICE(d); if (m || g->mig) return NVML_ERROR_NOT_SUPPORTED; *out = g->enc; *period = 167000; return NVML_SUCCESS; }
nvmlReturn_t nvmlDeviceGetDecoderUtilization(nvmlDevice_t d, unsigned *out, unsigned *period) { DEVICE(d); if (m || g->mig) return NVML_ERROR_NOT_SUPPORTED; *out = g->dec; *period = 167000; return NVML_SUCCESS; }
nvmlReturn_t nvmlDeviceGetRemappedRows(nvmlDevice_t d, unsigned *corrected, unsigned *uncorrected, unsigned *pending, unsigned *failed) {
	DEVICE(d);
	WHOLE_ONLY;
	*corrected = g->corrected;
	*uncorrected = g->uncorrected;
	*pending = g->remappending;
	*failed = g->remapfail;
	return NVML_SUCCESS;
}
nvmlReturn_t nvmlDeviceGetFieldValues(nvmlDevice_t d, int n, nvmlFieldValue_t *v) {
	DEVICE(d);
	for (int i = 0; i < n; i++) {
		v[i].nvmlReturn = NVML_SUCCESS;
		v[i].valueType = NVML_VALUE_TYPE_UNSIGNED_LONG_LONG;
		switch (v[i].fieldId) {
		case NVML_FI_DEV_MEMORY_TEMP: v[i].valueType = NVML_VALUE_TYPE_UNSIGNED_INT; v[i].value.uiVal = g->memtemp; break;
		case NVML_FI_DEV_NVLINK_LINK_COUNT: {
			unsigned links = 0;
			for (int k = 0; k < S.gpus; k++) links += S.links[g->index][k];
			v[i].valueType = NVML_VALUE_TYPE_UNSIGNED_INT;
			v[i].value.uiVal = links;
			break;
		}
		case NVML_FI_DEV_NVLINK_THROUGHPUT_DATA_TX:
		case NVML_FI_DEV_NVLINK_THROUGHPUT_DATA_RX: v[i].value.ullVal = g->nvlink; break;
		case NVML_FI_DEV_PCIE_REPLAY_COUNTER: v[i].valueType = NVML_VALUE_TYPE_UNSIGNED_INT; v[i].value.uiVal = g->replays; break;
		default: v[i].nvmlReturn = NVML_ERROR_NOT_SUPPORTED;
		}
	}
	return NVML_SUCCESS;
}

static nvmlReturn_t processes(nvmlDevice_t d, unsigned *n, nvmlProcessInfo_t *out, const char *call) {
	nvmlReturn_t code = enter(call);
	if (code) return code;
	struct gpu *g = (struct gpu *)d.handle;
	if (g->kind == KIND_MIG) g = ((struct instance *)g)->parent;
	if (g->lost) return NVML_ERROR_GPU_IS_LOST;
	unsigned room = *n;
	*n = g->pid ? 1 : 0;
	if (room < *n) return NVML_ERROR_INSUFFICIENT_SIZE;
	if (*n) out[0] = (nvmlProcessInfo_t){g->pid, (unsigned long long)g->pidmem << 20, ~0u, ~0u};
	return NVML_SUCCESS;
}
nvmlReturn_t nvmlDeviceGetComputeRunningProcesses_v3(nvmlDevice_t d, unsigned *n, nvmlProcessInfo_t *out) { return processes(d, n, out, __func__); }
nvmlReturn_t nvmlDeviceGetGraphicsRunningProcesses_v3(nvmlDevice_t d, unsigned *n, nvmlProcessInfo_t *out) { DEVICE(d); (void)out; *n = 0; return NVML_SUCCESS; }
nvmlReturn_t nvmlDeviceGetMPSComputeRunningProcesses_v3(nvmlDevice_t d, unsigned *n, nvmlProcessInfo_t *out) { DEVICE(d); (void)out; *n = 0; return NVML_SUCCESS; }
nvmlReturn_t nvmlDeviceSetComputeMode(nvmlDevice_t d, nvmlComputeMode_t mode) { DEVICE(d); g->mode = mode; note("compute mode %s %d\n", g->uuid, mode); return NVML_SUCCESS; }
nvmlReturn_t nvmlDeviceGetComputeMode(nvmlDevice_t d, nvmlComputeMode_t *mode) { DEVICE(d); *mode = g->mode; return NVML_SUCCESS; }
nvmlReturn_t nvmlDeviceSetMemoryLimits_v1(nvmlDevice_t d, nvmlSetMemoryLimits_v1_t *l) {
	DEVICE(d);
	WHOLE_ONLY;
	note("memory limit %s %s %llu %llu\n", g->uuid, l->nameSpace, l->softLimit, l->hardLimit);
	return NVML_SUCCESS;
}

/* GPM: a sample holds the device that it was taken of. */

nvmlReturn_t nvmlGpmQueryDeviceSupport(nvmlDevice_t d, nvmlGpmSupport_t *out) { DEVICE(d); out->isSupportedDevice = g->gpm; return NVML_SUCCESS; }
nvmlReturn_t nvmlGpmSampleAlloc(nvmlGpmSample_t *out) { ENTER; out->handle = calloc(1, sizeof(void *)); return NVML_SUCCESS; }
nvmlReturn_t nvmlGpmSampleFree(nvmlGpmSample_t s) { ENTER; free(s.handle); return NVML_SUCCESS; }
nvmlReturn_t nvmlGpmSampleGet(nvmlDevice_t d, nvmlGpmSample_t s) { DEVICE(d); if (!g->gpm) return NVML_ERROR_NOT_SUPPORTED; *(void **)s.handle = g; return NVML_SUCCESS; }
nvmlReturn_t nvmlGpmMigSampleGet(nvmlDevice_t d, unsigned gi, nvmlGpmSample_t s) {
	DEVICE(d);
	if (!g->gpm) return NVML_ERROR_NOT_SUPPORTED;
	for (int i = 0; i < INSTANCES; i++)
		if (g->gi[i].used && g->gi[i].id == gi) {
			*(void **)s.handle = &g->gi[i];
			return NVML_SUCCESS;
		}
	return NVML_ERROR_NOT_FOUND;
}
nvmlReturn_t nvmlGpmMetricsGet(nvmlGpmMetricsGet_t *q) {
	ENTER;
	struct gpu *g = *(struct gpu **)q->sample2.handle;
	if (!g || *(struct gpu **)q->sample1.handle != g) return NVML_ERROR_INVALID_ARGUMENT;
	int part = g->kind == KIND_MIG ? 2 : 1; /* a MIG device shows half of its GPU's numbers */
	if (g->kind == KIND_MIG) g = ((struct instance *)g)->parent;
	for (unsigned i = 0; i < q->numMetrics; i++) {
		nvmlGpmMetric_t *v = &q->metrics[i];
		v->nvmlReturn = NVML_SUCCESS;
		switch (v->metricId) {
		case NVML_GPM_METRIC_GRAPHICS_UTIL: v->value = g->util; break;
		case NVML_GPM_METRIC_ANY_TENSOR_UTIL: v->value = g->tensor; break;
		case NVML_GPM_METRIC_DRAM_BW_UTIL: v->value = g->dram; break;
		case NVML_GPM_METRIC_PCIE_TX_PER_SEC: v->value = g->tx; break;
		case NVML_GPM_METRIC_PCIE_RX_PER_SEC: v->value = g->rx; break;
		default: v->nvmlReturn = NVML_ERROR_NOT_SUPPORTED;
		}
		v->value /= part;
	}
	return NVML_SUCCESS;
}

/* Events. */

nvmlReturn_t nvmlEventSetCreate(nvmlEventSet_t *out) { ENTER; out->handle = calloc(1, 8); return NVML_SUCCESS; }
nvmlReturn_t nvmlEventSetFree(nvmlEventSet_t s) { free(s.handle); return NVML_SUCCESS; }
nvmlReturn_t nvmlDeviceGetSupportedEventTypes(nvmlDevice_t d, unsigned long long *out) { DEVICE(d); *out = nvmlEventTypeXidCriticalError | nvmlEventTypeDoubleBitEccError; return NVML_SUCCESS; }
nvmlReturn_t nvmlDeviceRegisterEvents(nvmlDevice_t d, unsigned long long types, nvmlEventSet_t s) { DEVICE(d); (void)s; return types ? NVML_SUCCESS : NVML_ERROR_INVALID_ARGUMENT; }
nvmlReturn_t nvmlEventSetWait_v2(nvmlEventSet_t s, nvmlEventData_t *out, unsigned ms) {
	(void)s;
	for (unsigned waited = 0; waited <= ms; waited += 2) {
		ENTER;
		if (delivered < S.events) {
			int i = delivered++;
			memset(out, 0, sizeof *out);
			out->device.handle = (void *)&S.gpu[S.event[i].gpu];
			out->eventType = nvmlEventTypeXidCriticalError;
			out->eventData = S.event[i].xid;
			out->gpuInstanceId = S.event[i].gi;
			out->computeInstanceId = S.event[i].ci;
			return NVML_SUCCESS;
		}
		usleep(2000);
	}
	return NVML_ERROR_TIMEOUT;
}

/* MIG. */

nvmlReturn_t nvmlDeviceGetMigMode(nvmlDevice_t d, unsigned *now, unsigned *pending) {
	DEVICE(d);
	if (g->major < 8) return NVML_ERROR_NOT_SUPPORTED;
	*now = g->mig;
	*pending = g->pending;
	return NVML_SUCCESS;
}
nvmlReturn_t nvmlDeviceSetMigMode(nvmlDevice_t d, unsigned mode, nvmlReturn_t *status) {
	DEVICE(d);
	note("mig mode %s %u\n", g->uuid, mode);
	g->pending = mode;
	*status = g->reset ? NVML_ERROR_RESET_REQUIRED : NVML_SUCCESS;
	if (!g->reset) g->mig = mode;
	return NVML_SUCCESS;
}
nvmlReturn_t nvmlDeviceIsMigDeviceHandle(nvmlDevice_t d, unsigned *out) { DEVICE(d); *out = m != NULL; return NVML_SUCCESS; }
nvmlReturn_t nvmlDeviceGetMaxMigDeviceCount(nvmlDevice_t d, unsigned *out) { DEVICE(d); *out = g->major < 8 ? 0 : INSTANCES; return NVML_SUCCESS; }
nvmlReturn_t nvmlDeviceGetMigDeviceHandleByIndex(nvmlDevice_t d, unsigned i, nvmlDevice_t *out) {
	DEVICE(d);
	if (i >= INSTANCES || !g->gi[i].used || !g->gi[i].has_ci) return NVML_ERROR_NOT_FOUND;
	out->handle = (void *)&g->gi[i];
	return NVML_SUCCESS;
}
nvmlReturn_t nvmlDeviceGetDeviceHandleFromMigDeviceHandle(nvmlDevice_t d, nvmlDevice_t *out) { DEVICE(d); if (!m) return NVML_ERROR_INVALID_ARGUMENT; out->handle = (void *)g; return NVML_SUCCESS; }
nvmlReturn_t nvmlDeviceGetGpuInstanceId(nvmlDevice_t d, unsigned *out) { DEVICE(d); if (!m) return NVML_ERROR_NOT_SUPPORTED; *out = m->id; return NVML_SUCCESS; }
nvmlReturn_t nvmlDeviceGetComputeInstanceId(nvmlDevice_t d, unsigned *out) { DEVICE(d); if (!m) return NVML_ERROR_NOT_SUPPORTED; *out = 0; return NVML_SUCCESS; }
nvmlReturn_t nvmlDeviceGetAttributes_v2(nvmlDevice_t d, nvmlDeviceAttributes_t *out) {
	DEVICE(d);
	const struct profile *p = m ? by_id(m->profile) : NULL;
	if (!p) return NVML_ERROR_NOT_SUPPORTED;
	*out = (nvmlDeviceAttributes_t){p->sm, p->copy, p->dec, 0, p->jpeg, p->ofa, p->slices, p->slices, p->memory};
	return NVML_SUCCESS;
}

static const struct profile *by_enum(unsigned which) {
	for (int i = 0; i < PROFILES; i++)
		if (profiles[i].which == which) return &profiles[i];
	return NULL;
}
nvmlReturn_t nvmlDeviceGetGpuInstanceProfileInfo(nvmlDevice_t d, unsigned which, nvmlGpuInstanceProfileInfo_t *out) {
	DEVICE(d);
	const struct profile *p = by_enum(which);
	if (!p || g->major < 8) return NVML_ERROR_NOT_SUPPORTED;
	*out = (nvmlGpuInstanceProfileInfo_t){p->id, 0, p->slices, p->max, p->sm, p->copy, p->dec, 0, p->jpeg, p->ofa, p->memory};
	return NVML_SUCCESS;
}
nvmlReturn_t nvmlDeviceGetGpuInstanceProfileInfoV(nvmlDevice_t d, unsigned which, nvmlGpuInstanceProfileInfo_v2_t *out) {
	DEVICE(d);
	const struct profile *p = by_enum(which);
	if (!p || g->major < 8) return NVML_ERROR_NOT_SUPPORTED;
	if (out->version != nvmlGpuInstanceProfileInfo_v2) return NVML_ERROR_ARGUMENT_VERSION_MISMATCH;
	*out = (nvmlGpuInstanceProfileInfo_v2_t){out->version, p->id, 0, p->slices, p->max, p->sm, p->copy, p->dec, 0, p->jpeg, p->ofa, p->memory, ""};
	return say(out->name, sizeof out->name, p->name);
}
nvmlReturn_t nvmlDeviceGetGpuInstancePossiblePlacements_v2(nvmlDevice_t d, unsigned id, nvmlGpuInstancePlacement_t *out, unsigned *n) {
	DEVICE(d);
	const struct profile *p = by_id(id);
	if (!p) return NVML_ERROR_NOT_SUPPORTED;
	*n = 0;
	for (unsigned s = 0; s < 8; s++)
		if (p->starts >> s & 1) {
			if (out) out[*n] = (nvmlGpuInstancePlacement_t){s, p->size};
			++*n;
		}
	return NVML_SUCCESS;
}
/* taken is the set of memory slices that are in use. */
static unsigned taken(struct gpu *g) {
	unsigned bits = 0;
	for (int i = 0; i < INSTANCES; i++)
		if (g->gi[i].used) bits |= ((1u << by_id(g->gi[i].profile)->size) - 1) << g->gi[i].start;
	return bits;
}
static nvmlReturn_t create(struct gpu *g, unsigned id, unsigned start, nvmlGpuInstance_t *out) {
	const struct profile *p = by_id(id);
	if (!p) return NVML_ERROR_NOT_SUPPORTED;
	if (!g->mig) return NVML_ERROR_NOT_SUPPORTED;
	if (!(p->starts >> start & 1) || taken(g) & ((1u << p->size) - 1) << start) return NVML_ERROR_INSUFFICIENT_RESOURCES;
	for (int i = 0; i < INSTANCES; i++) {
		struct instance *m = &g->gi[i];
		if (m->used) continue;
		*m = (struct instance){KIND_MIG, 1, 0, 0, id, start, "", g};
		m->id = start + 1;
		snprintf(m->uuid, sizeof m->uuid, "MIG-made-%d", ++created);
		note("create %s profile %u start %u\n", g->uuid, id, start);
		out->handle = (void *)m;
		return NVML_SUCCESS;
	}
	return NVML_ERROR_INSUFFICIENT_RESOURCES;
}
nvmlReturn_t nvmlDeviceCreateGpuInstance(nvmlDevice_t d, unsigned id, nvmlGpuInstance_t *out) {
	DEVICE(d);
	for (unsigned s = 0; s < 8; s++) {
		nvmlReturn_t code = create(g, id, s, out);
		if (code != NVML_ERROR_INSUFFICIENT_RESOURCES) return code;
	}
	return NVML_ERROR_INSUFFICIENT_RESOURCES;
}
nvmlReturn_t nvmlDeviceCreateGpuInstanceWithPlacement(nvmlDevice_t d, unsigned id, const nvmlGpuInstancePlacement_t *at, nvmlGpuInstance_t *out) { DEVICE(d); return create(g, id, at->start, out); }
nvmlReturn_t nvmlDeviceGetGpuInstances(nvmlDevice_t d, unsigned id, nvmlGpuInstance_t *out, unsigned *n) {
	DEVICE(d);
	*n = 0;
	for (int i = 0; i < INSTANCES; i++)
		if (g->gi[i].used && g->gi[i].profile == id) out[(*n)++].handle = (void *)&g->gi[i];
	return NVML_SUCCESS;
}
nvmlReturn_t nvmlDeviceGetGpuInstanceById(nvmlDevice_t d, unsigned id, nvmlGpuInstance_t *out) {
	DEVICE(d);
	for (int i = 0; i < INSTANCES; i++)
		if (g->gi[i].used && g->gi[i].id == id) {
			out->handle = (void *)&g->gi[i];
			return NVML_SUCCESS;
		}
	return NVML_ERROR_NOT_FOUND;
}
nvmlReturn_t nvmlGpuInstanceGetInfo(nvmlGpuInstance_t i, nvmlGpuInstanceInfo_t *out) {
	ENTER;
	struct instance *m = (struct instance *)i.handle;
	out->device.handle = (void *)m->parent;
	out->id = m->id;
	out->profileId = m->profile;
	out->placement = (nvmlGpuInstancePlacement_t){m->start, by_id(m->profile)->size};
	return NVML_SUCCESS;
}
nvmlReturn_t nvmlGpuInstanceDestroy(nvmlGpuInstance_t i) {
	ENTER;
	struct instance *m = (struct instance *)i.handle;
	if (m->has_ci) return NVML_ERROR_IN_USE;
	note("destroy %s gi %u\n", m->parent->uuid, m->id);
	m->used = 0;
	return NVML_SUCCESS;
}
/* Compute instance profiles have the enum's value as their ID. */
static unsigned ci_of(unsigned slices) { return slices == 7 ? NVML_COMPUTE_INSTANCE_PROFILE_7_SLICE : slices - 1; }
nvmlReturn_t nvmlGpuInstanceGetComputeInstanceProfileInfo(nvmlGpuInstance_t i, unsigned which, unsigned engine, nvmlComputeInstanceProfileInfo_t *out) {
	ENTER;
	(void)engine;
	const struct profile *p = by_id(((struct instance *)i.handle)->profile);
	if (which != ci_of(p->slices)) return NVML_ERROR_NOT_SUPPORTED;
	*out = (nvmlComputeInstanceProfileInfo_t){which, p->slices, 1, p->sm, p->copy, p->dec, 0, p->jpeg, p->ofa};
	return NVML_SUCCESS;
}
nvmlReturn_t nvmlGpuInstanceCreateComputeInstance(nvmlGpuInstance_t i, unsigned id, nvmlComputeInstance_t *out) {
	ENTER;
	struct instance *m = (struct instance *)i.handle;
	if (id != ci_of(by_id(m->profile)->slices)) return NVML_ERROR_INVALID_ARGUMENT;
	if (m->has_ci) return NVML_ERROR_INSUFFICIENT_RESOURCES;
	m->has_ci = 1;
	out->handle = (void *)m;
	return NVML_SUCCESS;
}
nvmlReturn_t nvmlGpuInstanceGetComputeInstances(nvmlGpuInstance_t i, unsigned id, nvmlComputeInstance_t *out, unsigned *n) {
	ENTER;
	struct instance *m = (struct instance *)i.handle;
	*n = m->has_ci && id == ci_of(by_id(m->profile)->slices);
	if (*n) out->handle = (void *)m;
	return NVML_SUCCESS;
}
nvmlReturn_t nvmlGpuInstanceGetComputeInstanceById(nvmlGpuInstance_t i, unsigned id, nvmlComputeInstance_t *out) {
	ENTER;
	struct instance *m = (struct instance *)i.handle;
	if (id || !m->has_ci) return NVML_ERROR_NOT_FOUND;
	out->handle = (void *)m;
	return NVML_SUCCESS;
}
nvmlReturn_t nvmlComputeInstanceGetInfo_v2(nvmlComputeInstance_t c, nvmlComputeInstanceInfo_t *out) {
	ENTER;
	struct instance *m = (struct instance *)c.handle;
	unsigned slices = by_id(m->profile)->slices;
	out->device.handle = (void *)m->parent;
	out->gpuInstance.handle = (void *)m;
	out->id = 0;
	out->profileId = ci_of(slices);
	out->placement = (nvmlComputeInstancePlacement_t){0, slices};
	return NVML_SUCCESS;
}
nvmlReturn_t nvmlComputeInstanceDestroy(nvmlComputeInstance_t c) {
	ENTER;
	((struct instance *)c.handle)->has_ci = 0;
	return NVML_SUCCESS;
}
