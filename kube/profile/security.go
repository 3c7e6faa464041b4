package profile

import (
	"maps"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
)

// security sets the user that the notebook runs as and what it may do. The namespace's Pod
// Security level decides whether it may.
func (m *maker) security() error {
	if err := m.podSecurity(); err != nil {
		return err
	}
	if err := m.containerSecurity(); err != nil {
		return err
	}
	account, err := m.text("service_account")
	if err != nil {
		return err
	}
	if m.pod.ServiceAccountName, err = m.names.expand(account); err != nil {
		return m.fail("service_account", "%w", err)
	}
	token, err := m.flag("automount_service_account_token")
	if err != nil {
		return err
	}
	if token == nil && account == "" {
		token = new(bool) // a user's code gets no access to the API by default
	}
	m.pod.AutomountServiceAccountToken = token
	return nil
}

// podSecurity sets the security context of the pod.
func (m *maker) podSecurity() error {
	var p corev1.PodSecurityContext
	var err error
	if p.FSGroup, err = m.whole("fs_gid"); err != nil {
		return err
	}
	if err := m.into("supplemental_gids", 0, &p.SupplementalGroups); err != nil {
		return err
	}
	has := p.FSGroup != nil || len(p.SupplementalGroups) > 0
	given, err := m.camelOnly("pod_security_context")
	if err != nil {
		return err
	}
	if err := replace(m, "pod_security_context", 0, &p); err != nil {
		return err
	}
	if has || given {
		m.pod.SecurityContext = &p
	}
	return nil
}

// containerSecurity sets the security context of the container.
func (m *maker) containerSecurity() error {
	var c corev1.SecurityContext
	var err error
	if c.RunAsUser, err = m.whole("uid"); err != nil {
		return err
	}
	if c.RunAsGroup, err = m.whole("gid"); err != nil {
		return err
	}
	privileged, err := m.flag("privileged")
	if err != nil {
		return err
	}
	if privileged != nil && *privileged {
		c.Privileged = privileged
	}
	if c.AllowPrivilegeEscalation, err = m.flag("allow_privilege_escalation"); err != nil {
		return err
	}
	given, err := m.camelOnly("container_security_context")
	if err != nil {
		return err
	}
	if err := replace(m, "container_security_context", 0, &c); err != nil {
		return err
	}
	if given || c != (corev1.SecurityContext{}) {
		m.main.SecurityContext = &c
	}
	return nil
}

// flag returns a setting that is true or false, or nil.
func (m *maker) flag(setting string) (*bool, error) {
	switch v := m.set.Values[setting].(type) {
	case nil:
		return nil, nil
	case bool:
		return &v, nil
	default:
		return nil, m.fail(setting, "%v must be true or false", v)
	}
}

// camelOnly refuses keys of a security context in snake_case, as kubespawner
// does, and says whether there are any keys.
func (m *maker) camelOnly(setting string) (bool, error) {
	fields, _ := m.set.Values[setting].(map[string]any)
	for _, key := range slices.Sorted(maps.Keys(fields)) {
		if strings.Contains(key, "_") {
			return false, m.fail(setting, "%s: keys of a security context are written as in Kubernetes, such as runAsUser", key)
		}
	}
	return len(fields) > 0, nil
}
