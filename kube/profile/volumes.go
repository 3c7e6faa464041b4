package profile

import (
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"berth.dev/berth/api"
)

// claimName names the user's claim, so that volumes can refer to it. A claim that
// kubespawner made before version 7 goes on being the user's, as with kubespawner,
// unless there is one of today's name.
func (m *maker) claimName() error {
	template, err := m.text("pvc_name_template")
	if err != nil {
		return err
	}
	if template == "" {
		template = "claim-{user_server}"
	}
	today, err := m.names.expand(template)
	if err != nil {
		return m.fail("pvc_name_template", "%w", err)
	}
	older, err := m.names.older().expand(template)
	if err != nil {
		return m.fail("pvc_name_template", "%w", err)
	}
	m.names.claim = today
	if slices.Contains(m.claims, older) && !slices.Contains(m.claims, today) {
		m.names.claim = older
	}
	m.names.values["pvc_name"] = m.names.claim
	return nil
}

// volumes sets volumes and mounts. Where the home is not where a notebook's
// controller would work, the container works there.
func (m *maker) volumes() error {
	if err := m.list("volumes", expandTexts, &m.pod.Volumes); err != nil {
		return err
	}
	if err := m.list("volume_mounts", expandTexts, &m.main.VolumeMounts); err != nil {
		return err
	}
	has := map[string]bool{}
	for i := range m.pod.Volumes {
		has[m.pod.Volumes[i].Name] = true
	}
	home := m.homeVolume()
	for i := range m.main.VolumeMounts {
		mount := &m.main.VolumeMounts[i]
		if !has[mount.Name] {
			return m.fail("volume_mounts", "%s: there is no volume %q; a list of volumes replaces those of the base settings, a mapping adds to them", mount.MountPath, mount.Name)
		}
		if mount.Name == home && m.main.WorkingDir == "" && mount.MountPath != homeOfController && !strings.HasPrefix(mount.MountPath, homeOfController+"/") {
			m.main.WorkingDir = mount.MountPath
		}
	}
	if home == "" && m.wantsClaim() {
		m.warn(CodeHome, Doubt, "volumes", "", "the profile's volumes replace the home volume: what its user writes is lost when it stops; write volumes as a mapping to add to it")
	}
	return nil
}

// homeVolume is the volume that is the user's claim, or "".
func (m *maker) homeVolume() string {
	for i := range m.pod.Volumes {
		if c := m.pod.Volumes[i].PersistentVolumeClaim; c != nil && c.ClaimName == m.names.claim {
			return m.pod.Volumes[i].Name
		}
	}
	return ""
}

// wantsClaim reports whether the base settings give each user a claim of their own.
func (m *maker) wantsClaim() bool { return m.set.From["storage_pvc"] != "" }

// claim makes the claim of the user's home, or nil where no volume is one. It is
// without an owner, so it outlives the notebook.
func (m *maker) claim() (*corev1.PersistentVolumeClaim, error) {
	if m.homeVolume() == "" || !m.wantsClaim() {
		return nil, nil
	}
	capacity, err := m.text("storage_capacity")
	if err != nil {
		return nil, err
	}
	size, err := resource.ParseQuantity(capacity)
	if err != nil || size.Sign() <= 0 {
		return nil, m.fail("storage_capacity", "%q is not the size of a volume; write it as Kubernetes does, such as 10Gi", capacity)
	}
	class, err := m.text("storage_class")
	if err != nil {
		return nil, err
	}
	c := &corev1.PersistentVolumeClaim{
		TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "PersistentVolumeClaim"},
		ObjectMeta: metav1.ObjectMeta{
			Name: m.names.claim, Namespace: m.names.values["namespace"],
			Labels:      map[string]string{api.AnnotationHubUser: m.labels[api.AnnotationHubUser]},
			Annotations: map[string]string{api.AnnotationHubUser: m.user},
		},
		Spec: corev1.PersistentVolumeClaimSpec{
			Resources: corev1.VolumeResourceRequirements{Requests: corev1.ResourceList{corev1.ResourceStorage: size}},
		},
	}
	if class != "" {
		c.Spec.StorageClassName = &class
	}
	if err := m.into("storage_access_modes", 0, &c.Spec.AccessModes); err != nil {
		return nil, err
	}
	if err := m.into("storage_extra_labels", expandTexts, &c.Labels); err != nil {
		return nil, err
	}
	if err := m.into("storage_extra_annotations", expandTexts, &c.Annotations); err != nil {
		return nil, err
	}
	if selector, _ := m.set.Values["storage_selector"].(map[string]any); len(selector) > 0 {
		c.Spec.Selector = &metav1.LabelSelector{}
		if err := m.into("storage_selector", expandTexts|objects, c.Spec.Selector); err != nil {
			return nil, err
		}
	}
	return c, nil
}
