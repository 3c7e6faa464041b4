/* GPM samples and events. */
#include "fake.h"

static int delivered; /* events of the file that were handed out */

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
		case NVML_GPM_METRIC_SM_UTIL: v->value = g->smactive; break;
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
