//! Functions of the program around the engine, which it adds to a session.

use std::sync::Arc;

use super::Session;
use crate::aggregates;
use crate::error::{Error, ErrorKind, Result};
use crate::hosted::{HostFunction, scalar};
use crate::sql::function_macros;

impl Session {
    /// Adds a function of the values of one row to those of SQL, for the statements of this session that begin from now on.
    ///
    /// # Errors
    /// A function of this name exists.
    pub fn create_function(&self, function: HostFunction) -> Result<()> {
        let function = function.normal();
        self.check_function_name(&function.name)?;
        let mut extension = self.planner().extension().clone();
        extension.functions.push(Arc::new(scalar::hosted(function)));
        self.extend(extension);
        Ok(())
    }

    /// Adds an aggregate. As [`Session::create_function`].
    ///
    /// # Errors
    /// A function of this name exists, or it has no parameters.
    pub fn create_aggregate(&self, function: HostFunction) -> Result<()> {
        let function = function.normal();
        if function.parameters.is_empty() {
            return Err(Error::invalid(format!("the aggregate {} has no parameters", function.name))
                .with_hint("give it at least one, whose values it gets"));
        }
        self.check_function_name(&function.name)?;
        let mut extension = self.planner().extension().clone();
        extension.aggregates.push(Arc::new(aggregates::hosted(function)));
        self.extend(extension);
        Ok(())
    }

    /// Removes a function or an aggregate that the program has added. Statements that run keep it.
    ///
    /// # Errors
    /// There is none of this name.
    pub fn remove_function(&self, name: &str) -> Result<()> {
        let name = name.to_lowercase();
        let mut extension = self.planner().extension().clone();
        let count = extension.functions.len() + extension.aggregates.len();
        extension.functions.retain(|function| function.name() != name || !scalar::is_hosted(function));
        extension.aggregates.retain(|function| function.name() != name || !aggregates::is_hosted(function));
        if count == extension.functions.len() + extension.aggregates.len() {
            return Err(Error::new(ErrorKind::NotFound, format!("no function {name} was created here"))
                .with_hint("only functions that this program has created can be removed"));
        }
        self.extend(extension);
        Ok(())
    }

    /// Adds the functions that the program has added to another session.
    pub fn use_functions_of(&self, other: &Session) {
        let mut extension = self.planner().extension().clone();
        let others = other.planner().extension().clone();
        extension.functions.extend(others.functions.into_iter().filter(|function| scalar::is_hosted(function)));
        extension.aggregates.extend(others.aggregates.into_iter().filter(|function| aggregates::is_hosted(function)));
        self.extend(extension);
    }

    fn check_function_name(&self, name: &str) -> Result<()> {
        let planner = self.planner();
        let (state, extension) = (planner.settings(), planner.extension());
        let is_own = extension.functions.iter().any(|function| function.name() == name)
            || extension.aggregates.iter().any(|function| function.name() == name);
        if is_own {
            return Err(Error::new(ErrorKind::Exists, format!("the function {name} exists"))
                .with_hint("remove it first, or choose another name"));
        }
        let is_of_sql = state.scalar_functions().contains_key(name)
            || state.aggregate_functions().contains_key(name)
            || state.window_functions().contains_key(name)
            || state.higher_order_functions().contains_key(name)
            || function_macros::names().any(|known| known == name);
        if name.is_empty() || is_of_sql {
            return Err(Error::new(ErrorKind::Exists, format!("{name:?} is a function of SQL, or no name"))
                .with_hint("choose another name"));
        }
        Ok(())
    }
}
