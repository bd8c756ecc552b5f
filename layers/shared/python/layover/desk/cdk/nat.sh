# The NAT instance's first boot: user data, after VPC_CIDR=... has been set. Everything that it sets up is
# there again after every later boot. Amazon Linux 2023 has neither iptables nor nft, so one package is
# installed.
set -euo pipefail

# With half a GiB, the kernel kills dnf while other services start on the first boot.
if [ ! -e /swapfile ]; then
  dd if=/dev/zero of=/swapfile bs=1M count=1024 status=none
  chmod 600 /swapfile
  mkswap /swapfile
  echo '/swapfile none swap sw 0 0' >> /etc/fstab
fi
swapon -a

# Another service of the first boot cleans dnf's cache, sometimes during this (aws-cdk#36717), and the way out
# may be a moment late. aws-cfn-bootstrap has cfn-signal; the image usually has it.
for attempt in 1 2 3 4; do
  timeout 150 dnf install -y --setopt=install_weak_deps=False nftables aws-cfn-bootstrap && break
  echo "attempt $attempt to install nftables failed"
  [ "$attempt" -lt 4 ] || exit 1
  sleep 10
done

# A separate table, made anew each time. No interface is named, because their names differ by instance type.
cat > /etc/layover-nat.nft <<EOF
table ip layover_nat
delete table ip layover_nat
table ip layover_nat {
  chain postrouting {
    type nat hook postrouting priority 100; policy accept;
    ip saddr $VPC_CIDR ip daddr != $VPC_CIDR masquerade
  }
}
EOF

cat > /etc/systemd/system/layover-nat.service <<'EOF'
[Unit]
Description=Network address translation for the private subnets
Wants=network-online.target
After=network-online.target systemd-sysctl.service

[Service]
Type=oneshot
RemainAfterExit=yes
ExecStart=/usr/sbin/sysctl -w net.ipv4.ip_forward=1
ExecStart=/usr/sbin/nft -f /etc/layover-nat.nft

[Install]
WantedBy=multi-user.target
EOF

# Amazon Linux stays at the release of its image until it is told otherwise. Once a week the newest; if that
# changed anything, the instance starts again, and for a minute there is no way out: steps are repeated.
cat > /usr/local/sbin/layover-updates <<'EOF'
#!/bin/bash
set -euo pipefail
installed() { rpm -qa | sort | sha256sum; }
before=$(installed)
timeout 1800 dnf upgrade -y --releasever=latest
[ "$before" = "$(installed)" ] || systemctl reboot
EOF
chmod 755 /usr/local/sbin/layover-updates

cat > /etc/systemd/system/layover-updates.service <<'EOF'
[Unit]
Description=Updates of the system
Wants=network-online.target
After=network-online.target

[Service]
Type=oneshot
ExecStart=/usr/local/sbin/layover-updates
EOF

cat > /etc/systemd/system/layover-updates.timer <<'EOF'
[Unit]
Description=Updates of the system, once a week

[Timer]
OnCalendar=Sun *-*-* 03:00:00 UTC
RandomizedDelaySec=1h

[Install]
WantedBy=timers.target
EOF

systemctl daemon-reload
systemctl enable layover-nat.service
systemctl enable --now layover-updates.timer
# Not by `enable --now`: on the first boot network-online.target may come after what runs this.
systemctl start --no-block layover-nat.service
for second in $(seq 60); do
  systemctl --quiet is-active layover-nat.service && break
  sleep 1
done
nft list table ip layover_nat
[ "$(cat /proc/sys/net/ipv4/ip_forward)" = 1 ]
