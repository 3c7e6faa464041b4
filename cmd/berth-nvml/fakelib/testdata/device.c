/* The system, the GPUs and what they show. */
#include "fake.h"

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
	const struct profile *p = profile_of(m->profile);
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

nvmlReturn_t nvmlDeviceGetPciInfoExt(nvmlDevice_t d, nvmlPciInfoExt_t *p) { DEVICE(d); p->baseClass = 3; p->subClass = g->display ? 0 : 2; return NVML_SUCCESS; }
nvmlReturn_t nvmlDeviceGetBrand(nvmlDevice_t d, nvmlBrandType_t *out) { DEVICE(d); *out = NVML_BRAND_NVIDIA; return NVML_SUCCESS; }
nvmlReturn_t nvmlDeviceGetArchitecture(nvmlDevice_t d, nvmlDeviceArchitecture_t *out) { DEVICE(d); *out = NVML_DEVICE_ARCH_HOPPER; return NVML_SUCCESS; }
nvmlReturn_t nvmlDeviceGetNumGpuCores(nvmlDevice_t d, unsigned *out) { DEVICE(d); *out = 16896; return NVML_SUCCESS; }

nvmlReturn_t nvmlDeviceGetMemoryInfo_v2(nvmlDevice_t d, nvmlMemory_v2_t *out) {
	DEVICE(d);
	const struct profile *p = m ? profile_of(m->profile) : NULL;
	out->total = (unsigned long long)(p ? (int)p->memory : g->memory) << 20;
	out->reserved = m ? 0 : (unsigned long long)g->reserved << 20;
	out->used = (unsigned long long)(m ? 16 : g->used) << 20;
	out->free = out->total - out->reserved - out->used;
	return NVML_SUCCESS;
}
nvmlReturn_t nvmlDeviceGetMemoryInfo(nvmlDevice_t d, nvmlMemory_t *out) {
	DEVICE(d);
	const struct profile *p = m ? profile_of(m->profile) : NULL;
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

/* What NVIDIA's device plugin asks before it prefers GPUs. Nothing depends on the answers but that there are some. */

nvmlReturn_t nvmlDeviceGetPowerManagementLimit(nvmlDevice_t d, unsigned *out) { DEVICE(d); *out = g->limit; return NVML_SUCCESS; }
nvmlReturn_t nvmlDeviceGetBAR1MemoryInfo(nvmlDevice_t d, nvmlBAR1Memory_t *out) { DEVICE(d); memset(out, 0, sizeof *out); return NVML_SUCCESS; }
nvmlReturn_t nvmlDeviceGetMaxPcieLinkGeneration(nvmlDevice_t d, unsigned *out) { DEVICE(d); *out = 4; return NVML_SUCCESS; }
nvmlReturn_t nvmlDeviceGetMaxPcieLinkWidth(nvmlDevice_t d, unsigned *out) { DEVICE(d); *out = 16; return NVML_SUCCESS; }
nvmlReturn_t nvmlDeviceGetMaxClockInfo(nvmlDevice_t d, nvmlClockType_t type, unsigned *out) { DEVICE(d); *out = type == NVML_CLOCK_MEM ? g->mem : g->sm; return NVML_SUCCESS; }

/* What it shows. */

#define READING(call, field) \
	nvmlReturn_t call(nvmlDevice_t d, unsigned *out) { DEVICE(d); WHOLE_ONLY; *out = g->field; return NVML_SUCCESS; }
READING(nvmlDeviceGetPowerUsage, power)
READING(nvmlDeviceGetEnforcedPowerLimit, limit)
READING(nvmlDeviceGetPcieReplayCounter, replays)
READING(nvmlDeviceGetFanSpeed, fan)
nvmlReturn_t nvmlDeviceGetPcieThroughput(nvmlDevice_t d, nvmlPcieUtilCounter_t counter, unsigned *out) { DEVICE(d); WHOLE_ONLY; *out = counter == NVML_PCIE_UTIL_TX_BYTES ? g->pciekb : 2 * g->pciekb; return NVML_SUCCESS; }
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
		case NVML_FI_DEV_ECC_SBE_VOL_TOTAL: v[i].value.ullVal = g->ecc; break;
		case NVML_FI_DEV_PERF_POLICY_THERMAL: v[i].value.ullVal = g->heat; break;
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
