/* MIG: modes, GPU instances and compute instances. */
#include "fake.h"

static int created; /* MIG devices made here, for their UUIDs */

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
	const struct profile *p = m ? profile_of(m->profile) : NULL;
	if (!p) return NVML_ERROR_NOT_SUPPORTED;
	*out = (nvmlDeviceAttributes_t){p->sm, p->copy, p->dec, 0, p->jpeg, p->ofa, p->slices, p->slices, p->memory};
	return NVML_SUCCESS;
}

nvmlReturn_t nvmlDeviceGetGpuInstanceProfileInfo(nvmlDevice_t d, unsigned which, nvmlGpuInstanceProfileInfo_t *out) {
	DEVICE(d);
	const struct profile *p = profile_of_shape(which);
	if (!p || g->major < 8) return NVML_ERROR_NOT_SUPPORTED;
	*out = (nvmlGpuInstanceProfileInfo_t){p->id, 0, p->slices, p->max, p->sm, p->copy, p->dec, 0, p->jpeg, p->ofa, p->memory};
	return NVML_SUCCESS;
}
nvmlReturn_t nvmlDeviceGetGpuInstanceProfileInfoV(nvmlDevice_t d, unsigned which, nvmlGpuInstanceProfileInfo_v2_t *out) {
	DEVICE(d);
	const struct profile *p = profile_of_shape(which);
	if (!p || g->major < 8) return NVML_ERROR_NOT_SUPPORTED;
	if (out->version != nvmlGpuInstanceProfileInfo_v2) return NVML_ERROR_ARGUMENT_VERSION_MISMATCH;
	*out = (nvmlGpuInstanceProfileInfo_v2_t){out->version, p->id, 0, p->slices, p->max, p->sm, p->copy, p->dec, 0, p->jpeg, p->ofa, p->memory, ""};
	return say(out->name, sizeof out->name, p->name);
}
nvmlReturn_t nvmlDeviceGetGpuInstancePossiblePlacements_v2(nvmlDevice_t d, unsigned id, nvmlGpuInstancePlacement_t *out, unsigned *n) {
	DEVICE(d);
	const struct profile *p = profile_of(id);
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
		if (g->gi[i].used) bits |= ((1u << profile_of(g->gi[i].profile)->size) - 1) << g->gi[i].start;
	return bits;
}
static nvmlReturn_t create(struct gpu *g, unsigned id, unsigned start, nvmlGpuInstance_t *out) {
	const struct profile *p = profile_of(id);
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
	out->placement = (nvmlGpuInstancePlacement_t){m->start, profile_of(m->profile)->size};
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
	const struct profile *p = profile_of(((struct instance *)i.handle)->profile);
	if (which != ci_of(p->slices)) return NVML_ERROR_NOT_SUPPORTED;
	*out = (nvmlComputeInstanceProfileInfo_t){which, p->slices, 1, p->sm, p->copy, p->dec, 0, p->jpeg, p->ofa};
	return NVML_SUCCESS;
}
nvmlReturn_t nvmlGpuInstanceCreateComputeInstance(nvmlGpuInstance_t i, unsigned id, nvmlComputeInstance_t *out) {
	ENTER;
	struct instance *m = (struct instance *)i.handle;
	if (id != ci_of(profile_of(m->profile)->slices)) return NVML_ERROR_INVALID_ARGUMENT;
	if (m->has_ci) return NVML_ERROR_INSUFFICIENT_RESOURCES;
	m->has_ci = 1;
	out->handle = (void *)m;
	return NVML_SUCCESS;
}
nvmlReturn_t nvmlGpuInstanceGetComputeInstances(nvmlGpuInstance_t i, unsigned id, nvmlComputeInstance_t *out, unsigned *n) {
	ENTER;
	struct instance *m = (struct instance *)i.handle;
	*n = m->has_ci && id == ci_of(profile_of(m->profile)->slices);
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
	unsigned slices = profile_of(m->profile)->slices;
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
