//! What a socket is to the server.

/// What a socket is to the server, packed into its owner's token.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Role {
    /// The listener for control connections.
    Listener,
    /// A client's control connection.
    Control(usize),
    /// A client's data listener, UDP socket, or data connection.
    Data(usize),
}

impl Role {
    const DATA: u32 = 1 << 31;

    /// As the owner's token.
    pub fn token(self) -> u32 {
        match self {
            Role::Listener => u32::MAX,
            Role::Control(client) => client as u32,
            Role::Data(client) => client as u32 | Self::DATA,
        }
    }

    /// From the owner's token.
    pub fn from_token(token: u32) -> Self {
        match token {
            u32::MAX => Role::Listener,
            _ if token & Self::DATA != 0 => Role::Data((token & !Self::DATA) as usize),
            _ => Role::Control(token as usize),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn roles_survive_their_token() {
        for role in [
            Role::Listener,
            Role::Control(0),
            Role::Control(1 << 30),
            Role::Data(0),
            Role::Data(1 << 30),
        ] {
            assert_eq!(Role::from_token(role.token()), role);
        }
    }
}
